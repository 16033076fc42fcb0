import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvbound.certificates.pareto import Point, complexity_at, pareto


def point(accuracy, complexity):
    return Point("m", "heuristic", 1.0, 1.0, accuracy, 0.0, complexity, 0.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 5)), min_size=1, max_size=12))
def test_pareto_set(pairs):
    points = [point(*pair) for pair in pairs]
    front = pareto(points)
    for p in points:
        beats = [q for q in front if q.accuracy >= p.accuracy and q.complexity <= p.complexity]
        assert beats
    assert [p.complexity for p in front] == sorted({p.complexity for p in front})
    assert [p.accuracy for p in front] == sorted({p.accuracy for p in front})


def test_complexity_at_an_accuracy():
    points = [point(0.6, 0.1), point(0.8, 0.5), point(0.7, 0.9)]
    assert complexity_at(points, 0.5) == pytest.approx(0.1)
    assert complexity_at(points, 0.7) == pytest.approx(math.sqrt((0.1**2 + 0.5**2) / 2))
    assert complexity_at(points, 0.8) == pytest.approx(0.5)
    assert complexity_at(points, 0.81) == math.inf


pairs_of_points = st.lists(
    st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.floats(0, 5)), min_size=2, max_size=12
)


@given(pairs_of_points, st.floats(0, 1))
def test_more_points_never_raise_the_complexity_and_points_are_reached(pairs, level):
    points = [point(*pair) for pair in pairs]
    assert complexity_at(points, level) <= complexity_at(points[1:], level) * (1 + 1e-9) + 1e-9
    for p in points:
        assert complexity_at(points, p.accuracy) <= p.complexity * (1 + 1e-9) + 1e-9
