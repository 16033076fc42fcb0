"""Every kind of data gives the same stream."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from curvbound.batches import Replay, batch_length, chunks, open_data, place, random_state
from curvbound.errors import CurvboundError

X, Y = torch.arange(20.0).reshape(10, 2), torch.arange(10)


@dataclass(frozen=True)
class Pair:
    inputs: torch.Tensor
    targets: torch.Tensor


@dataclass(frozen=True)
class Splits:
    train: Pair
    test: Pair


def collected(data):
    parts = list(open_data(data))
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X, Y],
        (X.numpy(), Y.numpy()),
        Pair(X, Y),
        Splits(Pair(X, Y), Pair(X[:1], Y[:1])),
        TensorDataset(X, Y),
        DataLoader(TensorDataset(X, Y), batch_size=3),
        [(X[:4], Y[:4]), (X[4:], Y[4:])],
        [(X[:4].numpy(), Y[:4].numpy()), [X[4:], Y[4:]]],
    ],
    ids=["tuple", "list", "numpy", "examples", "splits", "dataset", "loader", "batches", "mixed"],
)
def test_all_kinds_of_data(data):
    for _ in range(2):
        x, y = collected(data)
        assert torch.equal(x, X)
        assert torch.equal(y, Y)


def test_dictionaries():
    batch = OrderedDict(input_ids=X, attention_mask=X > 3, labels=Y)
    ((inputs, targets),) = open_data([batch])
    assert set(inputs) == {"input_ids", "attention_mask"}
    assert torch.equal(targets, Y)
    assert batch_length(inputs) == 10


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (iter([(X, Y)]), "only once"),
        (3, "Cannot read data of type int"),
        ((X, Y[:4]), "10 inputs but 4 targets"),
    ],
)
def test_unreadable_data(data, message):
    with pytest.raises(CurvboundError, match=message):
        open_data(data)


@pytest.mark.parametrize(
    ("batch", "message"), [({"x": X}, "no 'labels'"), ((X, Y, Y), "neither a pair")]
)
def test_unreadable_batches(batch, message):
    with pytest.raises(CurvboundError, match=message):
        list(open_data([batch]))


@pytest.mark.parametrize("size", [1, 3, 4, 10, 99])
def test_chunks_are_even_and_complete(size):
    parts = list(chunks([(X, Y)], size))
    assert torch.equal(torch.cat([x for x, _ in parts]), X)
    lengths = [len(y) for _, y in parts]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_chunks_of_dictionaries():
    parts = list(chunks([({"a": X, "b": X + 1}, Y)], 4))
    assert torch.equal(torch.cat([x["b"] for x, _ in parts]), X + 1)


def test_place_changes_only_floating_point():
    placed = place({"x": X, "tokens": Y}, torch.device("cpu"), torch.float64)
    assert placed["x"].dtype == torch.float64
    assert placed["tokens"].dtype == torch.int64


def test_replay_repeats_a_shuffled_loader_and_spares_the_callers_state():
    loader = DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True)
    state = torch.get_rng_state()
    passes = [torch.cat([y for _, y in Replay(loader, state)]) for _ in range(2)]
    assert torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[0], Y)
    assert torch.equal(torch.get_rng_state(), state)


def test_random_state_is_restored_after_an_error():
    state = torch.get_rng_state()
    with pytest.raises(TypeError), random_state(state):
        torch.rand(torch.rand(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_numpy_labels_keep_their_type():
    ((_, y),) = open_data((np.zeros((2, 3)), np.array([0, 1])))
    assert y.dtype == torch.int64
