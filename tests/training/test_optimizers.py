import functools

import pytest
import torch
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.training.optimizers import make_optimizer, resolve_optimizer


def make(optimizer, **changes):
    options = {"lr": 0.1, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0} | changes
    return make_optimizer(optimizer, nn.Linear(2, 2).parameters(), **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sgd", torch.optim.SGD), ("AdamW", torch.optim.AdamW), ("rmsprop", torch.optim.RMSprop)],
)
def test_names_in_any_case_mean_torchs_optimisers(name, expected):
    assert resolve_optimizer(name) is expected


def test_options_reach_the_optimiser():
    group = make("sgd", momentum=0.9, nesterov=True, weight_decay=1e-4).param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"]) == (0.1, 0.9, True)
    assert group["weight_decay"] == 1e-4


def test_no_weight_decay_means_none_even_where_torchs_default_is_some():
    assert make("adamw").param_groups[0]["weight_decay"] == 0.0


def test_a_partial_keeps_its_own_options():
    adam = functools.partial(torch.optim.AdamW, weight_decay=0.3)
    assert make(adam).param_groups[0]["weight_decay"] == 0.3


def test_frozen_parameters_are_left_out():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    optimizer = make_optimizer(
        "sgd", layer.parameters(), lr=0.1, momentum=0.0, nesterov=False, weight_decay=0.0
    )
    assert optimizer.param_groups[0]["params"] == [layer.weight]


def test_an_option_the_optimiser_lacks_is_refused():
    with pytest.raises(CurvboundError, match="Adam takes no momentum"):
        make("adam", momentum=0.9)


def test_an_unknown_optimiser_is_refused_with_a_suggestion():
    with pytest.raises(CurvboundError, match="did you mean 'adam'"):
        make("adm")
