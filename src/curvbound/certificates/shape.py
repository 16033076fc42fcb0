"""The curvature of a network in the form a posterior needs: eigenvalues in a basis per layer."""

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor

from curvbound.certificates.closed_form import BlockCurvature
from curvbound.curvature import KroneckerBlock, diagonal, kronecker, neuron_blocks
from curvbound.errors import CurvboundError
from curvbound.gaussians.layout import BlockLayout, layouts_of
from curvbound.landscape import Landscape

__all__ = ["Structure", "check_structure", "layer_curvature"]

Structure = Literal["isotropic", "diagonal", "neuron-block", "kronecker"]


def check_structure(name: str) -> Structure:
    """Refuse a covariance structure that does not exist."""
    for known in get_args(Structure):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise CurvboundError(
        f"There is no posterior '{name}': choose one of {', '.join(get_args(Structure))}."
    )


def layer_curvature(land: Landscape, structure: Structure) -> dict[str, BlockCurvature]:
    """Curvature of every layer matrix in the structure the posterior will have.

    ==============  =======================================================================
    isotropic       mean of the exact Gauss-Newton diagonal of the layer
    diagonal        exact Gauss-Newton diagonal
    neuron-block    second moment of the layer's input, the same for every neuron (000 eq. 34)
    kronecker       E[M] kron E[x x^T] (001 eq. 6)
    ==============  =======================================================================

    Layers without the structure (normalisation, embeddings) have their diagonal instead.
    """
    layouts = layouts_of(land.parameters)
    rest: Tensor | None = None
    if structure == "kronecker":
        factors = kronecker(land)
        found = {
            name: _from_kronecker(block)
            for name, block in factors.items()
            if name in layouts and isinstance(block, KroneckerBlock) and block.groups == 1
        }
        rest = factors.diagonal()
    elif structure == "neuron-block":
        found = {
            name: _from_moment(block.input)
            for name, block in neuron_blocks(land).items()
            if name in layouts and isinstance(block, KroneckerBlock) and block.groups == 1
        }
        if len(found) < len(layouts):
            rest = diagonal(land)
    else:
        found, rest = {}, diagonal(land)
    named = None if rest is None else land.unflatten(rest)
    for name, layout in layouts.items():
        if name not in found:
            assert named is not None  # the diagonal was computed because a layer needs it
            found[name] = _from_diagonal(layout, named, mean=structure == "isotropic")
    return found


def _from_kronecker(block: KroneckerBlock) -> BlockCurvature:
    eigen = block.eigh()
    return BlockCurvature(
        torch.outer(eigen.output_values, eigen.input_values),
        eigen.output_vectors,
        eigen.input_vectors,
    )


def _from_moment(matrix: Tensor) -> BlockCurvature:
    values, vectors = torch.linalg.eigh(matrix.to(torch.float64))
    return BlockCurvature(values.clamp(min=0)[None, :], right=vectors)


def _from_diagonal(
    layout: BlockLayout, values: Mapping[str, Tensor], *, mean: bool
) -> BlockCurvature:
    matrix = layout.join(values).to(torch.float64).clamp(min=0)
    return BlockCurvature(matrix.mean().reshape(1, 1) if mean else matrix)
