"""Gradients of single examples for parameters that cannot be read off at a layer.

Recurrent cells, attention projections inside ``nn.MultiheadAttention``, bare parameters,
reparametrised weights: torch differentiates every example on its own, vectorised where torch can
vectorise the network and one by one where it cannot.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.uses import example_parts
from curvbound.landscape import Landscape

__all__ = ["example_gradients"]


def example_gradients(
    land: Landscape, names: Sequence[str], inputs: Inputs, cotangents: Tensor
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Pull ``cotangents`` ``(K, B, ...)`` of the outputs back to parameters, example by example.

    Yields:
        Groups of examples, and for each parameter a tensor ``(b, K, *shape)``.
    """
    size = sum(land.parameters[name].numel() for name in names) * len(cotangents)
    for part in example_parts(cotangents.shape[1], size):
        yield part, _gradients(land, names, _take(inputs, part), cotangents[:, part])


def _gradients(
    land: Landscape, names: Sequence[str], inputs: Inputs, cotangents: Tensor
) -> dict[str, Tensor]:
    with torch.enable_grad():
        try:
            with warnings.catch_warnings():
                # torch warns when it vectorises an operation by a loop: slower, but right.
                warnings.simplefilter("ignore")
                return _vectorised(land, names, inputs, cotangents)
        except RuntimeError:
            return _one_by_one(land, names, inputs, cotangents)


def _vectorised(
    land: Landscape, names: Sequence[str], inputs: Inputs, cotangents: Tensor
) -> dict[str, Tensor]:
    constant = {name: tensor.detach() for name, tensor in land.model.named_parameters()}
    free = {name: constant.pop(name) for name in names}

    def example(single: Inputs, directions: Tensor) -> dict[str, Tensor]:
        def outputs(parameters: Mapping[str, Tensor]) -> Tensor:
            return land.forward(_widen(single), {**constant, **parameters})[0]

        pull = torch.func.vjp(outputs, free)[1]
        result: dict[str, Tensor] = torch.vmap(lambda direction: pull(direction)[0])(directions)
        return result

    mapped: dict[str, Tensor] = torch.vmap(example, in_dims=(0, 1))(inputs, cotangents)
    return {name: tensor.detach() for name, tensor in mapped.items()}


def _one_by_one(
    land: Landscape, names: Sequence[str], inputs: Inputs, cotangents: Tensor
) -> dict[str, Tensor]:
    constant = {name: tensor.detach() for name, tensor in land.model.named_parameters()}
    collected: dict[str, list[Tensor]] = {name: [] for name in names}
    for b in range(cotangents.shape[1]):
        leaves = land.leaves(names)
        outputs = land.forward(_take(inputs, slice(b, b + 1)), {**constant, **leaves})
        rows = [
            torch.autograd.grad(
                outputs,
                list(leaves.values()),
                cotangent[b : b + 1],
                retain_graph=True,
                materialize_grads=True,
                allow_unused=True,
            )
            for cotangent in cotangents
        ]
        for name, gradients in zip(names, zip(*rows, strict=True), strict=True):
            collected[name].append(torch.stack(gradients))
    return {name: torch.stack(parts) for name, parts in collected.items()}


def _take(inputs: Any, part: slice) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: value[part] for key, value in inputs.items()}
    return inputs[part]


def _widen(inputs: Any) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: value.unsqueeze(0) for key, value in inputs.items()}
    return inputs.unsqueeze(0)
