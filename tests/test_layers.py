"""Layer blocks of the networks of the grid."""

import torch
from torch import nn

from curvbound.landscape import Landscape
from curvbound.layers import ROOT, parameter_slices
from oracles.networks import BY_NAME, GRID


def land_of(name: str) -> Landscape:
    model, inputs, targets = BY_NAME[name].make()
    return Landscape(model, (inputs, targets))


def test_blocks_tile_the_flat_vector():
    for case in GRID:
        land = land_of(case.name)
        stops = [0]
        for block in land.layers.values():
            assert block.slice.start == stops[-1]
            assert block.size == block.slice.stop - block.slice.start
            stops.append(block.slice.stop)
        assert stops[-1] == land.size == sum(p.numel() for p in land.parameters.values())


def test_weights_are_row_major_out_by_in():
    land = land_of("dense")
    flat = land.flatten(list(land.parameters.values()))
    block = land.layers["0"]
    assert (block.weight, block.bias, block.kind) == ("0.weight", "0.bias", "linear")
    torch.testing.assert_close(flat[block.slices["0.weight"]].reshape(4, 5), land.model[0].weight)


def test_calls_positions_and_ties_are_seen():
    assert land_of("twice").layers["again"].calls == 2
    assert not land_of("twice").layers["again"].used_once
    assert land_of("shared").layers["embed"].positions == 4
    assert land_of("conv").layers["0"].positions == 16
    assert land_of("bag").layers["embedding"].positions == 4
    assert land_of("tied").layers["embedding"].tied
    assert "head" not in land_of("tied").layers
    assert land_of("dense").layers["2"].used_once


def test_kinds():
    kinds = {block.kind for case in GRID for block in land_of(case.name).layers.values()}
    assert kinds == {
        "linear", "conv", "batch_norm", "layer_norm", "group_norm", "embedding", "attention",
        "recurrent", "other",
    }  # fmt: skip


def test_parameters_of_the_model_itself():
    assert list(land_of("bare").layers) == [ROOT]


def test_slices():
    slices = parameter_slices({"a": torch.zeros(2, 2), "b": nn.Linear(2, 1).bias})
    assert slices == {"a": slice(0, 4), "b": slice(4, 5)}
