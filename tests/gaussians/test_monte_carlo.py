import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from curvbound.bounds import kl_inverse
from curvbound.errors import CurvboundError
from curvbound.gaussians import (
    ErrorCounts,
    NoisyNetwork,
    chunk_generator,
    count_errors,
    errors_of,
    isotropic,
)
from oracles.gaussians import normal_limit, random_gaussian


def make(independent="example", examples=230, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, 4, generator=generator)
    targets = (inputs[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
    gaussian = random_gaussian({n: p.detach() for n, p in model.named_parameters()}, "kronecker")
    return NoisyNetwork(model, gaussian, inputs, independent=independent), inputs, targets


@pytest.mark.parametrize("independent", ["example", "batch"])
def test_counts_do_not_depend_on_how_the_data_are_cut(independent):
    noisy, inputs, targets = make(independent)
    expected = count_errors(noisy, (inputs, targets), 2, seed=5, chunk=50)
    assert expected.by_draw.shape == (2, 5)
    assert expected.independent == independent
    for size in (7, 50, 64, 230):
        cuts = range(0, 230, size)
        batches = [(inputs[i : i + size], targets[i : i + size]) for i in cuts]
        found = count_errors(noisy, batches, 2, seed=5, chunk=50)
        assert np.array_equal(found.by_draw, expected.by_draw)
    other = count_errors(noisy, (inputs, targets), 2, seed=6, chunk=50)
    assert not np.array_equal(other.by_draw, expected.by_draw)
    assert not np.array_equal(expected.by_draw[0], expected.by_draw[1])


def test_no_two_passes_and_chunks_share_their_noise():
    noisy, inputs, _ = make()
    same = inputs[:1].expand(1200, 4)
    counts = count_errors(noisy, (same, torch.zeros(1200).long()), 6, seed=0, chunk=200).by_draw
    assert len(np.unique(counts)) > 10
    for axes in (slice(None), slice(None, None, -1)):
        grid = counts[axes]
        assert (grid[1:, :-1] != grid[:-1, 1:]).mean() > 0.5  # shifted by one chunk and one pass


def test_both_ways_agree_with_each_other():
    shared, inputs, targets = make("batch")
    own, _, _ = make("example")
    by_example = count_errors(own, (inputs, targets), 40, seed=1)
    by_batch = count_errors(shared, (inputs, targets), 40, seed=1, chunk=5)
    spread = by_batch.values.std() / math.sqrt(by_batch.observations)
    own_spread = 0.5 / math.sqrt(by_example.observations)
    assert abs(by_example.risk - by_batch.risk) < normal_limit(1) * math.hypot(spread, own_spread)


def test_observations_and_limit_with_independent_examples():
    noisy, inputs, targets = make()
    counts = count_errors(noisy, (inputs, targets), 3, seed=0, chunk=100)
    assert counts.observations == 690
    assert counts.risk >= counts.errors / 690
    assert counts.limit(0.01) == pytest.approx(kl_inverse(counts.risk, math.log(100) / 690))
    assert counts.limit(0.01, candidates=5) > counts.limit(0.01) > counts.risk


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_a_short_last_chunk_is_padded_and_paid_for(seed, chunk, passes):
    rng = np.random.default_rng(seed)
    examples = int(rng.integers(1, 40))
    sizes = [min(chunk, examples - start) for start in range(0, examples, chunk)]
    by_draw = np.array([[rng.integers(0, size + 1) for size in sizes] for _ in range(passes)])
    counts = ErrorCounts(by_draw, examples, chunk, "batch", 0)
    assert counts.padded == chunk * len(sizes)
    assert ((counts.values >= 0) & (counts.values <= 1)).all()
    # The padded mean, scaled back, is the plain mean over the examples.
    assert counts.values.mean() * counts.padded / examples == pytest.approx(
        counts.errors / (passes * examples)
    )
    assert counts.risk <= counts.limit(0.05) <= 1


def test_limits_hold_as_often_as_promised():
    # The difference of the two scores is x (1 + z) with z standard normal, so the error is known.
    from scipy.special import ndtr

    inputs = torch.linspace(-1.0, 3.0, 45)[:, None]
    targets = torch.zeros(45, dtype=torch.int64)
    model = nn.Linear(1, 2, bias=False).eval()
    gaussian = isotropic({"weight": torch.tensor([[1.0], [0.0]])}, 0.5)
    x = inputs.numpy()
    truth = float(np.where(x == 0, 1.0, np.where(x > 0, ndtr(-1.0), ndtr(1.0))).mean())
    too_many = 55  # the 1 - 1e-6 quantile of Binomial(150, 0.2)
    for independent, chunk in (("example", 45), ("batch", 4)):
        noisy = NoisyNetwork(model, gaussian, inputs, independent=independent)
        runs = [
            count_errors(noisy, (inputs, targets), 1, seed=seed, chunk=chunk) for seed in range(150)
        ]
        risks = np.array([run.risk for run in runs])
        assert abs(risks.mean() - truth) < normal_limit(1) * risks.std() / math.sqrt(len(risks))
        assert sum(run.limit(0.2) < truth for run in runs) <= too_many
        # The estimate itself is no limit: it fails about every other time.
        assert (risks < truth).sum() > too_many


@pytest.mark.parametrize("device", ["cpu"])
def test_streams_of_a_run_are_different_and_repeatable(device):
    seeds = {chunk_generator(7, index, device).initial_seed() for index in range(20_000)}
    assert len(seeds) == 20_000
    assert max(seeds) < 2**32
    first = torch.randn(5, generator=chunk_generator(7, 3))
    assert torch.equal(first, torch.randn(5, generator=chunk_generator(7, 3)))
    assert not torch.equal(first, torch.randn(5, generator=chunk_generator(8, 3)))
    assert not torch.equal(first, torch.randn(5, generator=chunk_generator(7, 4)))
    with pytest.raises(CurvboundError, match="more chunks"):
        chunk_generator(7, 2**32)


def test_ties_and_undefined_outputs_are_errors():
    inf, nan = math.inf, math.nan
    outputs = torch.tensor(
        [[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [nan, 0.0, 0.0], [0.0, nan, -1.0], [inf, inf, 0.0],
         [inf, 0.0, 0.0], [-inf, -inf, -inf], [0.0, -inf, -inf], [0.0, 1.0, 0.0]]
    )  # fmt: skip
    found = errors_of(outputs, torch.zeros(9, dtype=torch.int64)).tolist()
    assert found == [False, True, True, True, True, False, True, False, True]


@pytest.mark.parametrize(
    ("outputs", "targets", "message"),
    [
        (torch.zeros(3, 1), torch.zeros(3).long(), "at least two class scores"),
        (torch.zeros(3, 2, 2), torch.zeros(3).long(), "at least two class scores"),
        (torch.zeros(3, 2), torch.zeros(2).long(), "do not fit"),
        (torch.zeros(3, 2), torch.zeros(3), "whole class numbers"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2]), "outside of 0 to 1"),
        (torch.zeros(3, 2), torch.tensor([0, -1, 1]), "outside of 0 to 1"),
    ],
)
def test_outputs_and_labels_that_do_not_fit_are_refused(outputs, targets, message):
    with pytest.raises(CurvboundError, match=message):
        errors_of(outputs, targets)


def test_bad_settings_are_refused():
    noisy, inputs, targets = make()
    for arguments in ({"passes": 0}, {"passes": 1, "chunk": 0}):
        with pytest.raises(CurvboundError, match="at least 1"):
            count_errors(noisy, (inputs, targets), seed=0, **arguments)
    with pytest.raises(CurvboundError, match="empty"):
        count_errors(noisy, [], 1, seed=0)


def test_the_caller_s_random_state_is_untouched():
    noisy, inputs, targets = make()
    data = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    state = torch.get_rng_state()
    first = count_errors(noisy, loader, 1, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    assert np.array_equal(count_errors(noisy, loader, 1, seed=0).by_draw, first.by_draw)
    torch.set_rng_state(state)
