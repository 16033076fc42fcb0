import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.errors import CurvboundError
from curvbound.gaussians.numerics import excess, orthogonality_defect, orthonormal, upward
from oracles.gaussians import orthogonal


@given(
    st.floats(-300, 300),
    st.one_of(st.floats(-16, 3), st.just(-17.0)),
    st.sampled_from([-1.0, 1.0]),
)
@settings(deadline=None, max_examples=300)
def test_excess_has_small_relative_error_at_every_ratio(exponent, size, sign):
    reference = 10.0 ** max(-290.0, min(290.0, exponent))
    variance = reference * (1.0 + sign * 10.0**size)
    if not 0 < variance < 1e305:
        variance = reference * 10.0**-size
    ratio = mpmath.mpf(variance) / mpmath.mpf(reference)
    with mpmath.workdps(80):
        exact = ratio - 1 - mpmath.log(ratio)
    found = float(
        excess(
            torch.tensor(variance, dtype=torch.float64),
            torch.tensor(reference, dtype=torch.float64),
        )
    )
    assert abs(found - exact) <= 1e-13 * exact


def test_excess_survives_a_ratio_that_underflows():
    tiny = torch.tensor(1e-200, dtype=torch.float64)
    huge = torch.tensor(1e200, dtype=torch.float64)
    assert float(excess(tiny, huge)) == pytest.approx(400 * mpmath.log(10) - 1, rel=1e-14)


def test_upward_is_never_below():
    assert upward(3.0, 0.5) > 3.5
    assert upward(float("inf")) == float("inf")


def test_float32_eigenvectors_are_made_orthogonal_and_good_ones_kept():
    basis = orthogonal(40, 0)
    assert torch.equal(orthonormal(basis, 40, "basis"), basis)
    rough = basis.float()
    assert orthogonality_defect(rough.double()) > 1e-7
    repaired = orthonormal(rough, 40, "basis")
    assert orthogonality_defect(repaired) < 1e-11
    assert float((repaired - basis).abs().max()) < 1e-6


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.eye(3), "must be"),
        (2 * torch.eye(2), "not orthogonal"),
        (torch.tensor([[1.0, 0.0], [0.0, float("nan")]]), "not orthogonal"),
    ],
)
def test_bad_bases_are_refused(matrix, message):
    with pytest.raises(CurvboundError, match=message):
        orthonormal(matrix, 2, "The left basis of 'fc'")
