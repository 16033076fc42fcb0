"""The layer-wise blocks of 000: the same curvature for every neuron of a layer, forward only."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from curvbound.batches import Inputs
from curvbound.curvature.captures import Plan, capture, plan_captures
from curvbound.curvature.factors import Block, DiagonalBlock
from curvbound.curvature.kronecker import KroneckerFactors
from curvbound.curvature.kronecker_block import KroneckerBlock
from curvbound.curvature.moments import InputMoment
from curvbound.curvature.uses import AffineUse, EmbeddingUse, NormUse
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from curvbound.layers import LayerBlock

__all__ = ["neuron_blocks"]

_NOTE = "I kron E[z z^T]: one block for every neuron (000 Lemma 5.1)"


def neuron_blocks(land: Landscape) -> KroneckerFactors:
    """H_l = (1/N) sum_i z_i z_i^T for every layer, the block of each of its neurons (000 eq. 31).

    z is the layer's input with a one appended for the bias. Convolutions, and dense layers on
    sequences, sum over positions: one column per output pixel. A normalisation layer's neuron sees
    one normalised input. Only forward passes are needed. The scale is that of z z^T; the block
    Hessian of |W z - z'|^2 would be twice that (000-E12).

    ``blocks[name].input`` is H_l and ``blocks[name].output`` the identity.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.ones(6, 3), torch.tensor([0, 1] * 3)))
    >>> neuron_blocks(land)["(model)"].input.shape
    torch.Size([4, 4])

    Raises:
        CurvboundError: If a layer is not a sum of weights times inputs.
    """
    plan = plan_captures(land)
    owners = _owners(land, plan)

    def contribution(batches: Iterable[tuple[Inputs, Tensor]]) -> dict[str, Tensor]:
        moments: dict[str, InputMoment] = {}
        counts: dict[str, Tensor] = {}
        with torch.no_grad():
            for inputs, _ in batches:
                for use in capture(land, plan.watched, inputs).uses:
                    name = owners[use.module]
                    if isinstance(use, EmbeddingUse):
                        seen = _token_counts(use)
                        counts[name] = counts[name] + seen if name in counts else seen
                    elif isinstance(use, AffineUse | NormUse):
                        if name not in moments:
                            moments[name] = InputMoment(use, _like(use))
                        moments[name].add(use)
        return {name: moment.finish() for name, moment in moments.items()} | counts

    sums = land.reduce(contribution, over=[(land.batches(),)])
    blocks = {name: _block(land, layer, sums.pop(name)) for name, layer in land.layers.items()}
    slices = {name: layer.slice for name, layer in land.layers.items()}
    return KroneckerFactors(blocks, slices, land.dtype, land.device)


def _owners(land: Landscape, plan: Plan) -> Mapping[nn.Module, str]:
    """Layer names by module; refuses what is not one weight times one input."""
    modules = {layer.module: name for name, layer in land.layers.items()}
    for name, layer in land.layers.items():
        tied = layer.tied or any(parameter in plan.general for parameter in layer.parameters)
        if tied or layer.module not in plan.watched:
            raise CurvboundError(
                f"Layer '{name}' ({type(layer.module).__name__}) has no neuron blocks, because it "
                "is not one weight times one input: leave it out with Landscape(parameters=...)."
            )
    return {module: modules[module] for module in plan.watched}


def _like(use: AffineUse | NormUse) -> Tensor:
    return use.normalised if isinstance(use, NormUse) else use.inputs


def _token_counts(use: EmbeddingUse) -> Tensor:
    tokens = use.trained_tokens()
    return torch.bincount(tokens, minlength=use.vocabulary).to(torch.float64)


def _block(land: Landscape, layer: LayerBlock, total: Tensor) -> Block:
    mean = (total / land.n).to(land.dtype)
    if layer.kind == "embedding":
        width = layer.size // len(mean)
        note = "diagonal: how often each token occurs per example"
        return DiagonalBlock(layer.name, mean.repeat_interleave(width), note)
    groups, columns = mean.shape[:2]
    height = layer.size // (groups * columns)
    identity = torch.eye(height, dtype=mean.dtype, device=mean.device).expand(groups, -1, -1)
    weight, bias = layer.weight is not None, layer.bias is not None
    return KroneckerBlock(layer.name, identity, mean, weight=weight, bias=bias, note=_NOTE)
