"""Recording layer inputs and output gradients, without parameter gradients and without traces.

Layers are watched by hooks during one forward pass whose parameters are constants: a backward pass
then stops at the layers' outputs. Hooks see only calls of modules, so before anything is believed,
a few examples are run and compared with autograd; what does not agree takes the general way.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from curvbound.batches import Inputs, batch_length, chunks
from curvbound.curvature.uses import Use, make_use
from curvbound.landscape import Landscape
from curvbound.layers import layer_kind

__all__ = ["Captured", "Plan", "capture", "output_gradients", "plan_captures"]

_WATCHED = ("linear", "conv", "batch_norm", "layer_norm", "group_norm", "embedding")
_PROBE_EXAMPLES = 4


@dataclass(frozen=True)
class Plan:
    """Which parameters are read off at layers, and which take the general way.

    Attributes:
        watched: Trainable parameter names by role for every module to watch.
        general: Why the other parameters cannot be read off, by parameter name.
        calls: How many calls of layers use a parameter, by parameter name.
    """

    watched: Mapping[nn.Module, Mapping[str, str]]
    general: Mapping[str, str]
    calls: Mapping[str, int]


@dataclass
class Captured:
    """A forward pass with its layer calls.

    Attributes:
        outputs: The network's outputs.
        uses: Layer calls in order.
        edges: Where their outputs sit in the autograd graph (they survive in-place changes).
        strange: Modules with a call that is not laid out example by example.
    """

    outputs: Tensor
    uses: list[Use]
    edges: list[GradientEdge]
    strange: set[nn.Module]


_plans: "WeakKeyDictionary[Landscape, Plan]" = WeakKeyDictionary()


def plan_captures(land: Landscape) -> Plan:
    """The plan of a landscape, made and checked on first use."""
    if land not in _plans:
        with land.differentiable():
            _plans[land] = _make_plan(land)
    return _plans[land]


def _make_plan(land: Landscape) -> Plan:
    names = {id(tensor): name for name, tensor in land.parameters.items()}
    watched: dict[nn.Module, Mapping[str, str]] = {}
    for module in land.model.modules():
        if layer_kind(module) in _WATCHED:
            own = module._parameters
            roles = {r: names[id(own[r])] for r in ("weight", "bias") if id(own.get(r)) in names}
            if roles:
                watched[module] = roles
    general, calls = _compare(land, watched)
    kept: dict[nn.Module, Mapping[str, str]] = {}
    for module, used in watched.items():
        known = {role: name for role, name in used.items() if name not in general}
        if known:
            kept[module] = known
    return Plan(kept, general, calls)


def _compare(
    land: Landscape, watched: Mapping[nn.Module, Mapping[str, str]]
) -> tuple[dict[str, str], dict[str, int]]:
    """Compare gradients read off at layers with autograd's, for one of a few examples."""
    inputs, _ = next(chunks([next(iter(land.batches()))], _PROBE_EXAMPLES))
    captured = capture(land, watched, inputs)
    cotangent = torch.zeros_like(captured.outputs)
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(cotangent[0].shape, generator=generator, dtype=torch.float64)
    cotangent[0] = draw.to(cotangent)

    found: dict[str, Tensor] = {}
    calls: dict[str, int] = {}
    general: dict[str, str] = {}
    [gradients] = output_gradients(captured, [cotangent])
    for use, g in zip(captured.uses, gradients, strict=True):
        alone = not bool(g.reshape(use.examples, -1)[1:].any())
        for role, name in use.roles.items():
            if not alone:
                general[name] = "its first axis does not run over examples"
                continue
            part = use.gradient(role, g, slice(0, 1))[0]
            found[name] = found[name] + part if name in found else part
            calls[name] = calls.get(name, 0) + 1
    for module in captured.strange:
        for name in watched[module].values():
            general[name] = "its first axis does not run over examples"

    leaves = land.leaves(land.parameters)
    outputs = land.forward(inputs, leaves)
    truth = torch.autograd.grad(outputs, list(leaves.values()), cotangent, allow_unused=True)
    for name, gradient in zip(leaves, truth, strict=True):
        if name in general:
            continue
        if name not in found:
            general[name] = "it is not used by a dense, convolution, norm or embedding layer"
        elif not _agree(found[name], gradient):
            general[name] = "it is also used outside of its layer, or the layer does more"
    return general, calls


def _agree(a: Tensor, b: Tensor | None) -> bool:
    if b is None:
        return not bool(a.any())
    tolerance = torch.finfo(a.dtype).eps ** 0.5
    return bool((a - b).norm() <= tolerance * torch.maximum(a.norm(), b.norm()))


def capture(
    land: Landscape, watched: Mapping[nn.Module, Mapping[str, str]], inputs: Inputs
) -> Captured:
    """Run the network with constant parameters and record the calls of watched layers."""
    captured = Captured(torch.empty(0), [], [], set())
    with _constant(land.model), _watching(watched, batch_length(inputs), captured):
        captured.outputs = land.forward(inputs)
    return captured


@contextmanager
def _constant(model: nn.Module) -> Iterator[None]:
    """Take the parameters out of autograd for a moment; cheaper than replacing them."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


@contextmanager
def _watching(
    watched: Mapping[nn.Module, Mapping[str, str]], examples: int, captured: Captured
) -> Iterator[None]:
    def record(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        inputs = (args[0] if args else kwargs["input"]).detach()
        use = make_use(module, watched[module], inputs, output, examples)
        if use is None:
            captured.strange.add(module)
            return None
        captured.uses.append(use)
        if not torch.is_grad_enabled():
            return None
        if output.requires_grad:
            captured.edges.append(get_gradient_edge(output))
            return None
        # Nothing before this layer is trainable now: the graph begins here. The copy allows the
        # network to change it in place.
        start = output.detach().requires_grad_()
        captured.edges.append(get_gradient_edge(start))
        return start.clone()

    handles = [module.register_forward_hook(record, with_kwargs=True) for module in watched]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def output_gradients(
    captured: Captured, cotangents: Sequence[Tensor] | Tensor
) -> Iterator[list[Tensor]]:
    """For every cotangent of the outputs, the gradients at the outputs of all layer calls.

    Backward passes run one after the other: on this hardware as fast as a vectorised one, and with
    a fraction of its memory.
    """
    last = len(cotangents) - 1
    for k, cotangent in enumerate(cotangents):
        if not captured.edges:
            yield []
            continue
        gradients = torch.autograd.grad(
            captured.outputs,
            captured.edges,
            cotangent,
            retain_graph=k < last,
            materialize_grads=True,
        )
        yield list(gradients)
