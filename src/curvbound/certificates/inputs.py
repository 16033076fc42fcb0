"""What the caller passes in, checked once and brought into one form."""

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from curvbound.datasets import Dataset, Examples
from curvbound.errors import CurvboundError

__all__ = [
    "as_examples",
    "count_repeated_rows",
    "halves",
    "require_disjoint",
    "require_fixed_scaling",
]


def as_examples(data: Any, name: str = "data", classes: int | None = None) -> Examples:
    """Any supported form of labelled data as examples in memory.

    Args:
        data: Examples, a data set (its training part), a pair of tensors or arrays, or an iterable
            of (inputs, targets) batches such as a DataLoader.
        name: What to call the data in messages.
        classes: Number of classes, if the caller knows it; the largest label plus one otherwise.
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, Dataset):
        return data.train
    pair = tuple(data) if _is_pair(data) else _collect(data, name)
    inputs, targets = (_tensor(part, name) for part in pair)
    if targets.is_floating_point() or targets.is_complex():
        raise CurvboundError(
            f"The labels of the {name} are not whole numbers: certificates are about "
            "classification errors, which need class labels."
        )
    if not len(targets):
        raise CurvboundError(f"The {name} are empty: there is not a single example.")
    found = max(2, int(targets.max()) + 1)
    return Examples(inputs, targets.to(torch.int64), classes=classes or found, name=name)


def _tensor(part: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(part)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CurvboundError(
            f"The {name} hold a {type(part).__name__} that is no array of numbers: {error}."
        ) from error


def _is_pair(data: Any) -> bool:
    """Whether data are (inputs, targets), and not a list of two batches."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        return False
    first = data[0]
    return not (isinstance(first, tuple | list) and first and isinstance(first[0], Tensor))


def _collect(data: Any, name: str) -> tuple[Tensor, Tensor]:
    if not isinstance(data, Iterable):
        raise CurvboundError(
            f"The {name} are a {type(data).__name__}: pass Examples, a pair (X, y) or a DataLoader."
        )
    inputs, targets = [], []
    for batch in data:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise CurvboundError(f"The {name} must come as (inputs, targets) batches.")
        inputs.append(_tensor(batch[0], name))
        targets.append(_tensor(batch[1], name))
    if not inputs:
        raise CurvboundError(f"The {name} are empty: there is not a single example.")
    return torch.cat(inputs), torch.cat(targets)


def require_disjoint(seen: Examples, bound_data: Examples, what: str = "prior data") -> None:
    """Refuse a prior, or a network, that has seen rows its bound is computed on (CERT-8)."""
    shared = seen.overlap(bound_data)
    if shared:
        raise CurvboundError(
            f"{shared} examples are in both the {what} and the bound data: nothing may have seen "
            "the data of its bound; split them with Examples.split."
        )


def halves(data: Examples, seed: int) -> tuple[Examples, Examples]:
    """The prior part and the bound part of a split that nobody looked into."""
    prior_part, bound_part = data.split(0.5, 0.5, seed=seed)
    return prior_part, bound_part


def require_fixed_scaling(data: Examples) -> None:
    """Refuse inputs whose scaling was fitted on rows the bound is computed on (CERT-7)."""
    fitted = data.scaling.fitted_on
    if fitted is not None and data.overlap(fitted):
        raise CurvboundError(
            "The inputs were scaled with constants fitted on the bound data: fit them on the prior "
            "part of a split, or use constants."
        )


def count_repeated_rows(prior_data: Examples, bound_data: Examples) -> int:
    """Bound examples that are identical, input and label, to one of the prior data.

    Real tables repeat rows; independent examples may be equal, so this is reported, not refused.
    """
    seen = set(_row_hashes(prior_data))
    return sum(row in seen for row in _row_hashes(bound_data))


def _row_hashes(data: Examples) -> Iterable[bytes]:
    inputs = data.inputs.detach().cpu().contiguous().flatten(1).numpy()
    for row, label in zip(inputs, data.targets.tolist(), strict=True):
        yield hashlib.blake2b(row.tobytes() + str(label).encode(), digest_size=16).digest()
