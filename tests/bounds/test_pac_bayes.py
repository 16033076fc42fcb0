"""PAC-Bayes forms: numbers of the papers, order of the forms, rounding, bad input."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from curvbound.bounds import (
    LogGrid,
    binary_kl,
    catoni,
    complexity,
    kl_inverse,
    log_grid_charge,
    maurer_xi,
    mcallester,
    pac_bayes_kl,
    pinsker,
)
from curvbound.errors import CurvboundError
from oracles.table9 import ROWS, ROWS_WITHOUT_WEIGHT

CONSTANTS = ["maurer", "exact", "000", "001"]
risks = st.floats(0.0, 1.0)
kls = st.floats(0.0, 1e6)
sizes = st.integers(3, 10**7)
deltas = st.floats(1e-12, 0.999)


def table9_bound(kl: float, risk: float, j: int) -> float:
    return pac_bayes_kl(risk, kl, 60000, 0.025, constant="001", charge=log_grid_charge(j))


@pytest.mark.parametrize(
    ("kl", "risk", "j", "bound"),
    [
        (4612.6, 0.03373, 36, 0.15403394),
        (3766.1, 0.02347, 28, 0.11977072),
        (390.25, 0.5066, 264, 0.56525077),
        (11618.0, 0.04723, 181, 0.28962721),
    ],
)
def test_table_9_to_eight_digits(kl, risk, j, bound):
    assert table9_bound(kl, risk, j) == pytest.approx(bound, abs=5e-9)


def test_the_complexity_of_table_9():
    budget = complexity(4612.6, 60000, 0.025, constant="001", charge=log_grid_charge(36))
    assert budget == pytest.approx(0.07725054947, abs=5e-12)


@pytest.mark.parametrize(("network", "method", "printed", "kl", "risk", "rho"), ROWS)
def test_every_row_of_table_9_with_weight(network, method, printed, kl, risk, rho):
    position = 100.0 * (math.log(0.1) - 2.0 * rho)
    j = round(position)
    assert abs(position - j) < 0.02  # every printed rho lies on the grid
    assert table9_bound(kl, risk, j) == pytest.approx(printed, abs=1e-4)


@pytest.mark.parametrize(
    ("network", "method", "printed", "kl", "risk", "correct"), ROWS_WITHOUT_WEIGHT
)
def test_rows_of_table_9_without_weight(network, method, printed, kl, risk, correct):
    with pytest.raises(CurvboundError, match="at least 1"):
        table9_bound(kl, risk, 0)
    with pytest.raises(CurvboundError, match="no weight"):
        LogGrid().neighbours(0.1)
    bound = table9_bound(kl, risk, 1)
    assert bound == pytest.approx(correct, abs=5e-5)
    assert bound > printed


def test_the_three_forms_at_the_example_of_000():
    assert mcallester(0.03, 5000, 55000, 0.05, constant="000") == pytest.approx(0.2435, abs=5e-5)
    assert mcallester(0.03, 5000, 55000, 0.05) == pytest.approx(0.2434, abs=5e-5)
    assert pac_bayes_kl(0.03, 5000, 55000, 0.05) == pytest.approx(0.1618, abs=5e-5)


def reference(risk: float, kl: float, n: int, delta: float, constant: str) -> mpf:
    with mp.workdps(60):
        root = {
            "maurer": lambda: 2 * mp.sqrt(n),
            "000": lambda: mpf(2) * (n - 1),
            "001": lambda: mpf(n),
        }[constant]()
        return (mpf(kl) + mp.log(root / mpf(delta))) / (n - 1 if constant == "001" else n)


@given(risks, kls, sizes, deltas, st.sampled_from(["maurer", "000", "001"]))
def test_complexity_is_rounded_up_and_hardly(risk, kl, n, delta, constant):
    exact = reference(risk, kl, n, delta, constant)
    found = complexity(kl, n, delta, constant=constant)
    assert exact <= found <= exact * (1 + mpf(2) ** -49)
    with mp.workdps(60):
        assert mcallester(risk, kl, n, delta, constant=constant) >= min(
            1, mpf(risk) + mp.sqrt(exact / 2)
        )


@given(risks, kls, sizes, deltas, st.sampled_from(CONSTANTS))
def test_kl_form_is_the_inverse_of_the_complexity_and_below_mcallester(
    risk, kl, n, delta, constant
):
    bound = pac_bayes_kl(risk, kl, n, delta, constant=constant)
    assert bound == kl_inverse(risk, complexity(kl, n, delta, constant=constant))
    assert risk <= bound <= 1.0
    assert bound <= math.nextafter(mcallester(risk, kl, n, delta, constant=constant), 2.0)


@given(kls, sizes, deltas)
def test_constants_are_ordered(kl, n, delta):
    exact, maurer, paper0, paper1 = (
        complexity(kl, n, delta, constant=constant)
        for constant in ("exact", "maurer", "000", "001")
    )
    assert exact <= maurer * (1 + 1e-10)
    assert exact <= paper0 * (1 + 1e-10)
    assert maurer <= paper1 * (1 + 1e-15)


@pytest.mark.parametrize("n", [*range(2, 60), 1000, 10**6])
def test_the_form_of_001_follows_from_maurer(n):
    # at KL = 0 and delta = 1, the least favourable case: ln(xi)/n <= ln(n)/(n-1)
    assert math.log(maurer_xi(n)) / n <= math.log(n) / (n - 1)


@given(risks, kls, sizes, deltas)
def test_bounds_grow_with_kl_and_confidence_and_fall_with_n(risk, kl, n, delta):
    bound = pac_bayes_kl(risk, kl, n, delta)
    assert pac_bayes_kl(risk, kl + 1.0, n, delta) >= bound
    assert pac_bayes_kl(risk, kl, n, delta / 2.0) >= bound
    assert pac_bayes_kl(risk, kl, 2 * n, delta) <= math.nextafter(bound, 2.0)
    assert pac_bayes_kl(risk, kl, n, delta, charge=2.0) >= bound


def test_useless_input_gives_one():
    assert pac_bayes_kl(0.2, math.inf, 100, 0.05) == 1.0
    assert pac_bayes_kl(1.0, 0.0, 10**9, 0.05) == 1.0
    assert pac_bayes_kl(0.0, 1e12, 100, 0.05) == 1.0
    assert mcallester(0.2, math.inf, 100, 0.05) == 1.0
    assert catoni(0.2, math.inf, 100, 0.05, grid=[1.0]) == 1.0
    assert pinsker(0.9, 2.0) == 1.0
    assert pac_bayes_kl(0.1, 1.0, 1, 1e-320) == 1.0


@given(risks, kls, sizes, deltas, st.floats(1e-3, 30.0))
def test_catoni_at_one_parameter(risk, kl, n, delta, parameter):
    with mp.workdps(50):
        c = mpf(parameter)
        exponent = c * mpf(risk) + (mpf(kl) - mp.log(mpf(delta))) / n
        exact = mp.expm1(-exponent) / mp.expm1(-c)
    found = catoni(risk, kl, n, delta, grid=[parameter])
    assert found >= min(1, exact)
    assert found <= min(1, exact * (1 + mpf(10) ** -14))


def test_catoni_takes_the_minimum_and_pays_for_it():
    grid = [0.25 * 2**i for i in range(8)]
    together = catoni(0.03, 3000, 60000, 0.05, grid=grid)
    single = [catoni(0.03, 3000, 60000, 0.05 / 8, grid=[c]) for c in grid]
    assert together == pytest.approx(min(single), rel=1e-14)
    weighted = catoni(0.03, 3000, 60000, 0.05, grid=[1.0, 2.0], weights=[0.9, 0.1])
    assert weighted == pytest.approx(
        min(
            catoni(0.03, 3000, 60000, 0.05 * 0.9, grid=[1.0]),
            catoni(0.03, 3000, 60000, 0.05 * 0.1, grid=[2.0]),
        )
    )


@given(st.floats(0.0, 0.9), st.floats(0.0, 1.0), st.floats(0.01, 30.0))
def test_catoni_is_a_tangent_of_the_kl_ball(risk, truth, parameter):
    # kl(q||p) >= -ln(1 - p(1 - e^-C)) - C q for every C: so Catoni cannot beat kl at equal nats
    line = -math.log1p(truth * math.expm1(-parameter)) - parameter * risk
    assert binary_kl(risk, truth) >= line - 1e-12 * (1.0 + abs(line))


BAD = [
    ({"risk": -0.1}, "risk must lie in"),
    ({"risk": 1.1}, "risk must lie in"),
    ({"risk": math.nan}, "risk is NaN"),
    ({"risk": [0.1, 0.2]}, "risk must be one number"),
    ({"kl": -1e-12}, "kl must not be negative"),
    ({"kl": math.nan}, "kl is NaN"),
    ({"n": 0}, "n must be a whole number"),
    ({"n": 10.5}, "n must be a whole number"),
    ({"n": True}, "n must be a whole number"),
    ({"n": 2**60}, "n must be a whole number"),
    ({"delta": 0.0}, "delta must lie strictly"),
    ({"delta": 1.0}, "delta must lie strictly"),
    ({"delta": math.nan}, "delta is NaN"),
    ({"delta": "0.05"}, "delta must be a number"),
    ({"charge": -1.0}, "charge must not be negative"),
]


@pytest.mark.parametrize("bound", [pac_bayes_kl, mcallester, catoni])
@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_bad_input_is_named(bound, wrong, message):
    arguments = {"risk": 0.1, "kl": 10.0, "n": 100, "delta": 0.05} | wrong
    if bound is catoni:
        arguments["grid"] = [1.0]
    with pytest.raises(CurvboundError, match=message) as raised:
        bound(**arguments)
    assert "\n" not in str(raised.value)


def test_constants_have_a_domain():
    for n in (1, 2):
        with pytest.raises(CurvboundError, match="n >= 3"):
            mcallester(0.1, 1.0, n, 0.05, constant="000")
    with pytest.raises(CurvboundError, match="n >= 2"):
        pac_bayes_kl(0.1, 1.0, 1, 0.05, constant="001")
    with pytest.raises(CurvboundError, match="constant must be"):
        pac_bayes_kl(0.1, 1.0, 100, 0.05, constant="seeger")
    # why 3: 2(n-1) is below xi(n) for n = 1 and n = 2
    assert maurer_xi(2) > 2.0 * (2 - 1)
    assert all(maurer_xi(n) <= 2.0 * (n - 1) for n in range(3, 200))


@pytest.mark.parametrize(
    ("grid", "weights", "message"),
    [
        ([], None, "is empty"),
        ([0.0], None, "must be positive"),
        ([1.0, math.inf], None, "must be positive"),
        ([1.0, 2.0], [0.5], "one weight per value"),
        ([1.0, 2.0], [0.6, 0.41], "at most 1"),
        ([1.0, 2.0], [0.6, -0.1], "must be positive"),
    ],
)
def test_catoni_grids_are_checked(grid, weights, message):
    with pytest.raises(CurvboundError, match=message):
        catoni(0.1, 10.0, 100, 0.05, grid=grid, weights=weights)
