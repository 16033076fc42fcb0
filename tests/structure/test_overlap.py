import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curvbound.errors import CurvboundError
from curvbound.structure.overlap import subspace_overlap
from oracles.spectra import rotation


def frame(m, k, seed):
    return rotation(m, seed)[:, :k]


def test_equal_orthogonal_and_shared_subspaces():
    Q = rotation(9, 0)
    assert subspace_overlap(Q[:, :3], Q[:, :3]) == pytest.approx(1, abs=1e-14)
    assert subspace_overlap(Q[:, :3], Q[:, 3:6]) == pytest.approx(0, abs=1e-14)
    assert subspace_overlap(Q[:, :3], Q[:, 2:5]) == pytest.approx(1 / 3, abs=1e-14)


@settings(deadline=None, max_examples=30)
@given(m=st.integers(1, 20), k=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_lies_in_the_unit_interval_and_does_not_depend_on_the_bases(m, k, seed):
    k = min(m, k)
    U, V = frame(m, k, seed), frame(m, k, seed + 1)
    overlap = subspace_overlap(U, V)
    assert 0 <= overlap <= 1
    assert overlap == pytest.approx(subspace_overlap(V, U), abs=1e-12)
    turned = subspace_overlap(U @ rotation(k, seed + 2), V @ rotation(k, seed + 3))
    assert overlap == pytest.approx(turned, abs=1e-12)


@pytest.mark.parametrize(("m", "k"), [(10, 1), (20, 5), (12, 9)])
def test_haar_mean_is_k_over_m(m, k):
    overlaps = torch.tensor(
        [subspace_overlap(frame(m, k, s), frame(m, k, s + 9999)) for s in range(400)]
    )
    stderr = float(overlaps.std()) / math.sqrt(len(overlaps))
    assert abs(float(overlaps.mean()) - k / m) < 4 * stderr


def test_mixed_precision_is_fine():
    U = frame(30, 4, 0)
    assert subspace_overlap(U.float(), U) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("U", "V", "sentence"),
    [
        (torch.eye(4)[:, :2], torch.eye(4)[:, :3], "same shape"),
        (torch.eye(4)[:, :2], torch.eye(5)[:, :2], "same shape"),
        (torch.ones(4), torch.ones(4), "same shape"),
        (torch.eye(4)[:2], torch.eye(4)[:2], "1 <= k <= m"),
        (torch.eye(4)[:, :2], 2 * torch.eye(4)[:, :2], "second basis are not orthonormal"),
        (torch.full((4, 2), torch.nan), torch.eye(4)[:, :2], "first basis are not orthonormal"),
    ],
)
def test_bad_bases_are_refused(U, V, sentence):
    with pytest.raises(CurvboundError, match=sentence):
        subspace_overlap(U, V)
