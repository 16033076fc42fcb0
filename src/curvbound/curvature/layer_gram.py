"""Inner products of the per-example gradients of one layer call."""

from collections.abc import Sequence

import torch
from torch import Tensor

from curvbound.curvature.sums import SymmetricSum
from curvbound.curvature.uses import BIAS, WEIGHT, AffineUse, EmbeddingUse, Use, sum_of

__all__ = ["call_gram", "explicit_rows", "rows_gram"]

# Columns converted to double precision at once.
COLUMNS = 2**14
# Numbers in one block of products between positions.
PAIRS = 2**22


def rows_gram(rows: Tensor) -> Tensor:
    """J J^T for rows J ``(N, size)``, multiplied in double precision."""
    total = SymmetricSum(1, len(rows), rows.new_empty(0, dtype=torch.float64))
    for part in torch.split(rows, COLUMNS, 1):
        total.add(part.to(torch.float64).unsqueeze(0))
    return total.finish()[0]


def call_gram(use: Use, roles: Sequence[str], g: Tensor) -> Tensor:
    """Gram matrix of the gradients of the chosen parameters of one call, float64.

    A dense layer on single vectors needs (A A^T) * (G G^T). With positions, either all pairs of
    positions are multiplied that way, or the gradients are formed: whichever takes fewer
    multiplications.
    """
    if isinstance(use, AffineUse) and _pairs_are_cheaper(use, roles):
        return _pairs_gram(use, roles, g)
    if isinstance(use, EmbeddingUse):
        return rows_gram(_embedding_rows(use, g))
    return sum_of(rows_gram(explicit_rows(use, role, g)) for role in roles)


def explicit_rows(use: Use, role: str, g: Tensor) -> Tensor:
    """Gradients of all examples as rows ``(N, size)``."""
    return torch.cat([use.gradient(role, g, part).flatten(1) for part in use.parts(role)])


def _pairs_are_cheaper(use: AffineUse, roles: Sequence[str]) -> bool:
    n = use.width if WEIGHT in roles else 0
    size = use.height * (n + (BIAS in roles))
    explicit = use.positions * use.height * n + use.examples * size
    pairs = use.examples * use.positions**2 * (n + use.height)
    return pairs <= explicit


def _pairs_gram(use: AffineUse, roles: Sequence[str], g: Tensor) -> Tensor:
    """Sum over groups and pairs of positions of (x_t . x_s) (g_t . g_s)."""
    outputs = _rows(use.output_columns(g))
    inputs = _rows(use.input_columns()) if WEIGHT in roles else (None,) * use.groups
    bias = BIAS in roles
    return sum_of(
        _group_gram(use.examples, use.positions, left, right, bias)
        for left, right in zip(outputs, inputs, strict=True)
    )


def _rows(columns: Tensor) -> Sequence[Tensor]:
    """Columns ``(N, groups, size, T)`` as double-precision rows ``(N T, size)``, by group."""
    rows = columns.permute(1, 0, 3, 2).to(torch.float64)
    return rows.reshape(rows.shape[0], -1, rows.shape[3]).unbind()


def _group_gram(N: int, T: int, outputs: Tensor, inputs: Tensor | None, bias: bool) -> Tensor:
    step = max(1, PAIRS // (N * T * T))
    parts = []
    for start in range(0, N, step):
        rows = slice(start * T, min(start + step, N) * T)
        products = outputs[rows] @ outputs.T
        if inputs is not None:
            similar = inputs[rows] @ inputs.T
            products *= similar.add_(1.0) if bias else similar
        parts.append(products if T == 1 else products.reshape(-1, T, N, T).sum((1, 3)))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _embedding_rows(use: EmbeddingUse, g: Tensor) -> Tensor:
    """Explicit gradients, restricted to the tokens that occur."""
    occurring, place = torch.unique(use.tokens, return_inverse=True)
    rows = use.rows(g)
    dense = rows.new_zeros(use.examples, len(occurring), use.width)
    return dense.scatter_add_(1, place.unsqueeze(2).expand_as(rows), rows).flatten(1)
