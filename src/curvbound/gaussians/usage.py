"""A look at how a network uses its layers, to know which noise rules are exact for it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from curvbound.batches import Inputs
from curvbound.gaussians.layout import BlockLayout
from curvbound.gaussians.noise import CONVOLUTIONS, NORMS
from curvbound.layers import ROOT

__all__ = ["Use", "layer_modules", "layer_uses", "output_rows_depend_on_own_example"]

_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Use:
    """How the forward pass used a layer.

    Attributes:
        calls: How often it ran.
        positions: Places of one example that share the weights, in one call.
    """

    calls: int
    positions: int


def layer_modules(model: nn.Module, layouts: Mapping[str, BlockLayout]) -> dict[str, nn.Module]:
    """Modules that alone own the parameters of a block and have an exact noise rule."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in module._parameters.values():
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    found = {}
    for name, layout in layouts.items():
        path = "" if name == ROOT else name
        try:
            module = model.get_submodule(path)
        except AttributeError:
            continue
        own = {f"{path}.{part}" if path else part for part in ("weight", "bias")}
        known = type(module) in (nn.Linear, *CONVOLUTIONS, *NORMS)
        alone = all(
            owners[id(tensor)] == 1 for tensor in module._parameters.values() if tensor is not None
        )
        if known and alone and own.issuperset(layout.parameters) and "forward" not in vars(module):
            found[name] = module
    return found


def layer_uses(
    modules: Mapping[str, nn.Module], run: Callable[[Inputs], Tensor], inputs: Inputs
) -> dict[str, Use] | None:
    """How each layer is used, or None if the rows of its inputs are not the examples.

    Two batch sizes show that the first axis counts examples; changing each example in turn shows
    that its row, and no other, belongs to it in every layer.
    """
    probe = _probe_batches(inputs)
    if probe is None:
        return None
    recorded = []
    for batch in (probe.same, probe.fewer, *probe.changed):
        with _recorded(modules) as calls:
            run(batch)
        recorded.append(calls)
    uses = {}
    for name, module in modules.items():
        counts = {len(calls[name]) for calls in recorded}
        together = list(zip(*(calls[name] for calls in recorded), strict=False))
        if len(counts) != 1 or not together or not all(_by_example(*call) for call in together):
            return None
        uses[name] = Use(len(together), max(_positions(module, call[0]) for call in together))
    return uses


def output_rows_depend_on_own_example(run: Callable[[Inputs], Tensor], inputs: Inputs) -> bool:
    """Whether changing one example leaves the outputs of the others as they were."""
    probe = _probe_batches(inputs)
    if probe is None:
        return True
    return _by_example(run(probe.same), run(probe.fewer), *map(run, probe.changed))


@dataclass(frozen=True)
class _Probe:
    """One example three times, twice, and three times with each place taken by another one."""

    same: Inputs
    fewer: Inputs
    changed: list[Inputs]


def _probe_batches(inputs: Inputs) -> _Probe | None:
    def select(*rows: int) -> Inputs:
        if isinstance(inputs, Mapping):
            return {key: value[list(rows)] for key, value in inputs.items()}
        return inputs[list(rows)]

    tensors = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    for other in range(1, len(tensors[0])):
        if any(not torch.equal(tensor[other], tensor[0]) for tensor in tensors):
            changed = [select(other, 0, 0), select(0, other, 0), select(0, 0, other)]
            return _Probe(select(0, 0, 0), select(0, 0), changed)
    return None


@contextmanager
def _recorded(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Tensor | None]]]:
    calls: dict[str, list[Tensor | None]] = {name: [] for name in modules}

    def hook(name: str) -> Callable[..., None]:
        def record(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            plain = len(args) == 1 and not kwargs and isinstance(args[0], Tensor)
            calls[name].append(args[0].detach().clone() if plain else None)

        return record

    handles = [
        module.register_forward_pre_hook(hook(name), with_kwargs=True)
        for name, module in modules.items()
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _by_example(same: Tensor | None, fewer: Tensor | None, *changed: Tensor | None) -> bool:
    """Whether the first axis counts examples and a change of one shows in its row alone."""
    if same is None or fewer is None or same.dim() == 0 or len(fewer) != len(changed) - 1:
        return False
    for place, tensor in enumerate(changed):
        if tensor is None or tensor.shape != same.shape or len(tensor) != len(changed):
            return False
        others = [row for row in range(len(changed)) if row != place]
        if not _close(tensor[others], same[others]):
            return False
    return True


def _close(a: Tensor, b: Tensor) -> bool:
    scale = float(torch.nan_to_num(a).abs().max()) if a.numel() else 0.0
    room = _TOLERANCE * scale
    return bool(torch.allclose(a, b, rtol=_TOLERANCE, atol=room, equal_nan=True))


def _positions(module: nn.Module, x: Tensor | None) -> int:
    return 1 if x is None else max(1, x.numel() // (len(x) * x.shape[-1]))
