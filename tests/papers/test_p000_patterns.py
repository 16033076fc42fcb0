"""The verdicts on 000's figures, on made-up points."""

from curvbound.certificates.pareto import BASELINE, DIAGONAL, FULL, LOWER_BOUND, Point
from curvbound.papers.p000_patterns import bounded_below, crosses, ordered


def point(method, accuracy, complexity):
    return Point(method, "heuristic", 1.0, 1.0, accuracy, 0.0, complexity, 0.0)


def test_a_guessing_posterior_does_not_count_as_a_crossing():
    guess = [point("m", 0.5, 0.05), point("m", 0.76, 0.9)]
    assert not crosses(guess, 2)
    assert crosses([*guess, point("m", 0.9, 0.6)], 2)
    assert not crosses([*guess, point("m", 0.9, 0.6)], 2, limit=0.5)


def test_ordering_is_decided_at_equal_accuracy():
    def curve(method, factor):
        return [point(method, a, factor * a) for a in (0.6, 0.8, 1.0)]

    down = {BASELINE: curve(BASELINE, 3), DIAGONAL: curve(DIAGONAL, 2), FULL: curve(FULL, 1)}
    assert ordered(down, 2)
    assert not ordered({**down, FULL: curve(FULL, 2.5)}, 2)
    assert ordered({**down, FULL: curve(FULL, 2.01)}, 2)  # within the noise of five draws
    assert bounded_below({**down, LOWER_BOUND: curve(LOWER_BOUND, 1.5)}, 2)  # full may cross it
    assert not bounded_below({**down, LOWER_BOUND: curve(LOWER_BOUND, 2.5)}, 2)
