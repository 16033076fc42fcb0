import itertools

import pytest
import torch
from torch import Tensor, nn

from curvbound.gaussians.layout import layouts_of
from curvbound.gaussians.usage import (
    Use,
    layer_modules,
    layer_uses,
    output_rows_depend_on_own_example,
)
from oracles.networks import BY_NAME


def look(model: nn.Module, inputs) -> dict[str, Use] | None:
    modules = layer_modules(model, layouts_of(dict(model.named_parameters())))

    def run(batch) -> Tensor:
        with torch.no_grad():
            return model(batch)

    return layer_uses(modules, run, inputs)


def test_calls_and_positions_are_counted():
    model, inputs, _ = BY_NAME["twice"].make()
    assert look(model, inputs) == {"first": Use(1, 1), "again": Use(2, 1), "head": Use(1, 1)}
    model, inputs, _ = BY_NAME["shared"].make()
    assert look(model, inputs) == {"embed": Use(1, 4), "head": Use(1, 1)}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("residual", {"stem", "norm", "conv", "head"}),
        ("attention", {"head"}),
        ("tied", {"mix"}),
        ("recurrent", {"head"}),
        ("bare", set()),
    ],
)
def test_only_layers_with_a_rule_and_weights_of_their_own_are_found(name, found):
    model, _, _ = BY_NAME[name].make()
    assert set(layer_modules(model, layouts_of(dict(model.named_parameters())))) == found


class Subclass(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input).exp()


def test_unknown_subclasses_and_replaced_forwards_are_not_touched():
    model = nn.Sequential(Subclass(2, 2), nn.Linear(2, 2))
    model[1].forward = lambda x: x
    assert layer_modules(model, layouts_of(dict(model.named_parameters()))) == {}


class Permutes(nn.Module):
    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.fc, self.order = nn.Linear(2, 2), order

    def forward(self, x: Tensor) -> Tensor:
        order = self.order if len(x) == len(self.order) else range(len(x))
        return self.fc(x[list(order)])


@pytest.mark.parametrize(
    ("order", "same"),
    [(order, order == (0, 1, 2)) for order in itertools.permutations(range(3))],
)
def test_every_exchange_of_examples_is_noticed(order, same):
    inputs = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert (look(Permutes(order), inputs) is not None) == same


class Pooled(nn.Module):
    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight * x.mean(0)


def test_mixed_examples_are_noticed_in_the_output():
    inputs = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert output_rows_depend_on_own_example(Pooled(0.0), inputs)
    assert not output_rows_depend_on_own_example(Pooled(0.5), inputs)
    assert output_rows_depend_on_own_example(lambda batch: batch["x"], {"x": inputs})


def test_equal_examples_tell_nothing():
    assert look(nn.Sequential(nn.Linear(2, 2)), torch.ones(4, 2)) is None
