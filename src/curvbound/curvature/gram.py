"""Gram matrices of per-example gradients (002)."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.captures import Captured, Plan, capture, output_gradients, plan_captures
from curvbound.curvature.example_gradients import example_gradients
from curvbound.curvature.layer_gram import call_gram, explicit_rows, rows_gram
from curvbound.curvature.uses import Use, sum_of
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape

__all__ = ["gram"]

Numbers = npt.NDArray[np.int64]


def gram(land: Landscape, indices: Sequence[int] | Tensor) -> Tensor:
    """Gram matrix J J^T; row n of J is the gradient of ln p(y_n | x_n), the given label (002-C2).

    One backward pass; per-example gradients are formed only for layers where nothing is cheaper.
    The logit gradients are built and scaled in double precision, so that confident predictions
    neither cancel nor underflow in single precision (002-E12), and the products are added up in
    double precision. For losses other than cross-entropy the gradient is that of the example's
    summed loss.

    >>> import torch
    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.tensor([0, 1] * 3)))
    >>> gram(land, [0, 2, 5]).shape
    torch.Size([3, 3])

    Args:
        land: The landscape.
        indices: Which examples, in the order in which the data yield them.

    Returns:
        The ``(N', N')`` Gram matrix, float64.
    """
    plan = plan_captures(land)
    inputs, targets = _select(land, _checked(land, indices))
    with land.differentiable():
        captured = capture(land, plan.watched, inputs)
        cotangent, scale = _scaled_gradient(land, captured.outputs.detach(), targets)
        [gradients] = output_gradients(captured, [cotangent])
        with torch.no_grad():
            total = _sum_of_calls(plan, captured, gradients)
        general = list(plan.general)
        if general:
            total += _general_gram(land, general, inputs, cotangent)
    return total * scale.unsqueeze(0) * scale.unsqueeze(1)


def _checked(land: Landscape, indices: Sequence[int] | Tensor) -> Numbers:
    chosen = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
    if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iub":
        raise CurvboundError("The indices must be a non-empty list of example numbers.")
    first, last = int(chosen.min()), int(chosen.max())
    if first < 0 or last >= land.n:
        raise CurvboundError(
            f"The indices run from {first} to {last}, but examples are numbered 0 ... {land.n - 1}."
        )
    if len(chosen) * land.saved_bytes > land.memory:
        raise CurvboundError(
            f"{len(chosen)} examples need about {len(chosen) * land.saved_bytes / 2**20:.0f} MiB, "
            f"but {land.memory / 2**20:.0f} MiB may be used: pass fewer indices."
        )
    return chosen.astype(np.int64)


def _select(land: Landscape, chosen: Numbers) -> tuple[Inputs, Tensor]:
    """Fetch examples from the stream, in the order of ``chosen``."""
    if bool((np.diff(chosen) > 0).all()):
        return _select_ordered(land, chosen)
    ordered, places = np.unique(chosen, return_inverse=True)
    inputs, targets = _select_ordered(land, ordered)
    back = torch.from_numpy(places).to(targets.device)
    return _pick(inputs, back), targets[back]


def _select_ordered(land: Landscape, ordered: Numbers) -> tuple[Inputs, Tensor]:
    inputs: list[Inputs] = []
    targets: list[Tensor] = []
    start, last = 0, int(ordered[-1])
    for chunk_inputs, chunk_targets in land.batches():
        stop = start + len(chunk_targets)
        inside = ordered[slice(*np.searchsorted(ordered, (start, stop)))] - start
        if len(inside):
            rows = _as_rows(inside, chunk_targets.device)
            inputs.append(_pick(chunk_inputs, rows))
            targets.append(chunk_targets[rows])
        start = stop
        if start > last:
            break
    return _join(inputs), _join(targets)


def _as_rows(ordered: Numbers, device: torch.device) -> slice | Tensor:
    """Neighbouring rows are read in place instead of being copied one by one."""
    first, end = int(ordered[0]), int(ordered[-1]) + 1
    if end - first == len(ordered):
        return slice(first, end)
    return torch.from_numpy(ordered).to(device)


def _pick(inputs: Inputs, rows: slice | Tensor) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: value[rows] for key, value in inputs.items()}
    return inputs[rows]


def _join(parts: Sequence[Inputs]) -> Inputs:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Mapping):
        return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    return torch.cat(list(parts))


def _scaled_gradient(land: Landscape, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss gradients with largest entry 1 for every example, and what they were divided by."""
    gradient = land.output_loss.gradient(outputs.to(torch.float64), targets)
    scale = gradient.abs().flatten(1).amax(1)
    divisor = torch.where(scale > 0, scale, 1).reshape(-1, *[1] * (gradient.dim() - 1))
    return (gradient / divisor).to(outputs.dtype), scale


def _sum_of_calls(plan: Plan, captured: Captured, gradients: Sequence[Tensor]) -> Tensor:
    examples = len(captured.outputs)
    total = torch.zeros(examples, examples, dtype=torch.float64, device=captured.outputs.device)
    several: dict[str, list[tuple[Use, str, Tensor]]] = {}
    for use, g in zip(captured.uses, gradients, strict=True):
        once = [role for role, name in use.roles.items() if plan.calls[name] == 1]
        if once:
            total += call_gram(use, once, g)
        for role, name in use.roles.items():
            if role not in once:
                several.setdefault(name, []).append((use, role, g))
    for calls in several.values():
        # A parameter used by several calls has the sum of their gradients.
        total += rows_gram(sum_of(explicit_rows(use, role, g) for use, role, g in calls))
    return total


def _general_gram(
    land: Landscape, names: Sequence[str], inputs: Inputs, cotangent: Tensor
) -> Tensor:
    rows = [
        torch.cat([part[:, 0].flatten(1) for part in gradients.values()], 1)
        for _, gradients in example_gradients(land, names, inputs, cotangent.unsqueeze(0))
    ]
    return rows_gram(torch.cat(rows))
