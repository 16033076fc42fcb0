from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from curvbound.datasets import Examples
from curvbound.errors import CurvboundError
from curvbound.training.batches import checked_pair, derived_seed, is_loader, make_batches

CPU = torch.device("cpu")


def numbered(count):
    """Examples whose input is their number."""
    return torch.arange(count, dtype=torch.float32)[:, None], torch.arange(count) % 3


def batches_of(data, batch_size=4, augmentation=None):
    return make_batches(
        data, batch_size=batch_size, augmentation=augmentation, device=CPU, dtype=torch.float32
    )


def order(batches, seed, epoch, skip=0):
    return [inputs.flatten().tolist() for inputs, _ in batches.epoch(seed, epoch, skip)]


@given(
    count=st.integers(1, 40), size=st.integers(1, 40), seed=st.integers(), epoch=st.integers(0, 9)
)
def test_an_epoch_is_every_example_once_in_batches_of_the_size_asked_for(count, size, seed, epoch):
    size = min(size, count)
    batches = batches_of(numbered(count), size)
    found = order(batches, seed, epoch)
    assert sorted(chain(*found)) == list(range(count))
    assert len(found) == batches.steps
    assert [len(batch) for batch in found[:-1]] == [size] * (batches.steps - 1)
    assert len(found[-1]) == batches.smallest


@given(count=st.integers(2, 40), seed=st.integers(), skip=st.integers(0, 12))
def test_skipping_gives_the_rest_of_the_same_epoch(count, seed, skip):
    batches = batches_of(numbered(count), min(4, count))
    assert order(batches, seed, 1, skip) == order(batches, seed, 1)[skip:]


def test_inputs_and_targets_stay_together():
    for inputs, targets in batches_of(numbered(30)).epoch(0, 0, 0):
        assert torch.equal(inputs.flatten().long() % 3, targets)


def test_order_depends_on_seed_and_epoch():
    batches = batches_of(numbered(30))
    assert order(batches, 0, 0) == order(batches, 0, 0)
    assert order(batches, 0, 0) != order(batches, 0, 1)
    assert order(batches, 0, 0) != order(batches, 1, 0)


def test_order_does_not_touch_the_global_generator():
    before = torch.get_rng_state()
    order(batches_of(numbered(30)), 0, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_augmentation_of_a_step_does_not_depend_on_those_before():
    def noise(inputs, generator):
        return inputs + torch.rand(inputs.shape, generator=generator)

    loader = DataLoader(TensorDataset(*numbered(30)), batch_size=4)
    for batches in (batches_of(numbered(30), augmentation=noise), batches_of(loader, 4, noise)):
        assert order(batches, 5, 2, 3) == order(batches, 5, 2)[3:]


def test_derived_seeds_differ():
    seeds = {derived_seed(kind, a, b) for kind in "xy" for a in range(20) for b in range(20)}
    assert len(seeds) == 800
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("own", [None, 7])
def test_a_loaders_order_follows_from_the_seed_too(own):
    generator = None if own is None else torch.Generator().manual_seed(own)
    dataset = TensorDataset(*numbered(30))
    batches = batches_of(DataLoader(dataset, batch_size=4, shuffle=True, generator=generator))
    found = []
    for epoch in (0, 1, 0):
        with torch.random.fork_rng():
            torch.manual_seed(epoch)
            found.append(order(batches, 3, epoch))
    assert found[0] == found[2] != found[1]
    assert sorted(chain(*found[0])) == list(range(30))


def test_smallest_batch_of_a_loader():
    dataset = TensorDataset(*numbered(9))
    assert batches_of(DataLoader(dataset, batch_size=4)).smallest == 1
    assert batches_of(DataLoader(dataset, batch_size=4, drop_last=True)).smallest == 4


def test_fingerprints_tell_contents_apart():
    inputs, targets = numbered(8)
    changed = targets.clone()
    changed[3] += 1
    base = batches_of((inputs, targets)).fingerprint()
    assert batches_of((inputs.clone(), targets.clone())).fingerprint() == base
    assert batches_of((inputs, changed)).fingerprint() != base
    assert batches_of((inputs + 1, targets)).fingerprint() != base


def test_examples_bring_their_own_hash():
    examples = Examples(*numbered(8), classes=3)
    assert batches_of(examples).fingerprint()["sha256"] == examples.hash


def test_what_is_a_loader():
    inputs, targets = numbered(8)
    assert not is_loader((inputs, targets))
    assert not is_loader([inputs, targets])
    assert not is_loader(Examples(inputs, targets, classes=3))
    assert not is_loader((inputs.numpy(), targets.numpy()))
    assert is_loader([(inputs, targets)])
    assert is_loader([])
    assert is_loader(DataLoader(TensorDataset(inputs, targets)))


X = torch.zeros(4, 2)
Y = torch.zeros(4, dtype=torch.int64)
BAD = X.clone()
BAD[2, 1] = float("nan")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X[:0], Y[:0]), "are empty"),
        ((X, Y[:3]), r"shape \(4, 2\) and targets \(3,\)"),
        ((X, torch.zeros(4, 2)), "one class number per input"),
        ((X, Y.float()), "class numbers of type int64, not torch.float32"),
        ((X, Y - 1), "negative class -1"),
        ((BAD, Y), "NaN or infinity, first in example 2"),
        ((X, Y, Y), "must be a pair"),
        (X, "must be a pair"),
        (7, "not int"),
        (([1], [2]), "pair of tensors"),
    ],
)
def test_data_that_cannot_be_learnt_from_are_refused(data, message):
    with pytest.raises(CurvboundError, match=message):
        checked_pair(data, "training")


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(CurvboundError, match="at most batch_size=3"):
        batches_of(numbered(3), 4)


def test_loaders_without_length_or_batches_are_refused():
    with pytest.raises(CurvboundError, match="no length"):
        batches_of(iter([numbered(3)]))
    with pytest.raises(CurvboundError, match="no batches"):
        batches_of(DataLoader(TensorDataset(*numbered(3)), batch_size=4, drop_last=True))
