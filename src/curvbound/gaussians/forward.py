"""Predictions of a randomised network: every example, or every batch, with its own weights."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from curvbound.batches import Inputs, batch_length, place
from curvbound.errors import CurvboundError
from curvbound.gaussians.distribution import Distribution
from curvbound.gaussians.draws import Draws, Kept
from curvbound.gaussians.noise import NoisyLayer, make_noisy
from curvbound.gaussians.usage import (
    layer_modules,
    layer_uses,
    output_rows_depend_on_own_example,
)
from curvbound.outputs import logits_of
from curvbound.probe import check_model, trainable_parameters

__all__ = ["Independent", "NoisyNetwork"]

Independent = Literal["example", "batch"]


class NoisyNetwork:
    """A network whose weights are drawn anew from a distribution whenever it predicts.

    Where the structure allows it exactly, every example of a batch gets weights of its own
    (CERT-4 ii); otherwise every call draws one set of weights (CERT-4 iii). Which of the two is
    found out from a few examples and recorded. The given network is not touched.

    >>> import torch
    >>> from curvbound.gaussians import isotropic
    >>> model = torch.nn.Linear(3, 2).eval()
    >>> posterior = isotropic(dict(model.named_parameters()), 0.01)
    >>> noisy = NoisyNetwork(model, posterior, torch.randn(4, 3))
    >>> noisy.independent, noisy.method
    ('example', {'(model)': 'local'})
    >>> noisy(torch.randn(5, 3), torch.Generator().manual_seed(0)).shape
    torch.Size([5, 2])

    Args:
        model: Any network in evaluation mode; its weights do not matter, but parameters that are
            frozen and buffers keep their values.
        distribution: Distribution of all trainable parameters.
        example: A few inputs (two different ones at least), to see how layers are used.
        independent: ``batch`` asks for one draw per call even where one per example is possible.

    Attributes:
        independent: ``example`` or ``batch``: what has independent weights within a call.
        method: The rule for every block: ``local``, ``per-example`` or ``per-batch``.
        device: Where the network computes; generators must live there too.
    """

    independent: Independent
    method: dict[str, str]

    def __init__(
        self,
        model: nn.Module,
        distribution: Distribution,
        example: Inputs,
        *,
        independent: Independent = "example",
    ) -> None:
        check_model(model)
        _check_coverage(model, distribution)
        self.distribution = distribution
        self._model = _private_copy(model)
        self._load(distribution.mean)
        first = next(self._model.parameters())
        self._dtype, self.device = first.dtype, first.device
        self._draws: Draws | None = None
        inputs = place(example, self.device, self._dtype)
        self._writes_input = self._changes(inputs)
        if not output_rows_depend_on_own_example(self._run, inputs):
            raise CurvboundError(
                "The prediction for an example depends on the other examples of its batch or on "
                "chance: such a network cannot be evaluated example by example."
            )
        layers = self._plan(inputs) if independent == "example" else None
        self.independent = "batch" if layers is None else "example"
        self.method = {
            name: "per-batch" if layers is None else layers[name].method
            for name in distribution.layouts
        }

    def __call__(self, inputs: Inputs, generator: torch.Generator) -> Tensor:
        """Outputs for a batch, with fresh weights for every example (or for the batch)."""
        return next(self.passes(inputs, [generator]))

    def passes(self, inputs: Inputs, generators: Iterable[torch.Generator]) -> Iterator[Tensor]:
        """Outputs of several passes over one batch, each with its own generator.

        What does not depend on the noise (the first dense layer's moments) is computed once.
        """
        inputs = place(inputs, self.device, self._dtype)
        kept = Kept(inputs if isinstance(inputs, Tensor) else None)
        for generator in generators:
            fresh = _cloned(inputs) if self._writes_input else inputs
            if self.independent == "batch":
                yield self._run(fresh, self._draw(generator))
                continue
            self._draws = Draws(generator, batch_length(inputs), kept)
            try:
                outputs = self._run(fresh)
            finally:
                self._draws = None
            yield outputs

    def _draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        drawn = self.distribution.sample(generator, dtype=self._dtype)
        return {name: tensor.to(self.device) for name, tensor in drawn.items()}

    def _changes(self, inputs: Inputs) -> bool:
        """Whether the forward pass writes into its input."""
        trial = _cloned(inputs)
        tensors = list(trial.values()) if isinstance(trial, Mapping) else [trial]
        before = [tensor._version for tensor in tensors]
        self._run(trial)
        return before != [tensor._version for tensor in tensors]

    @torch.no_grad()
    def _run(self, inputs: Inputs, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else ((inputs,), {})
        if parameters is None:
            return logits_of(self._model(*args, **kwargs))
        return logits_of(torch.func.functional_call(self._model, dict(parameters), args, kwargs))

    def _plan(self, inputs: Inputs) -> dict[str, NoisyLayer] | None:
        """Put noisy layers into the private copy, or leave it alone and return None."""
        sources = self.distribution.layer_noise
        modules = layer_modules(self._model, self.distribution.layouts)
        if not sources or len(modules) < len(self.distribution.layouts):
            return None
        uses = layer_uses(modules, self._run, inputs)
        if uses is None:
            return None
        expected = self._run(_cloned(inputs))
        mean = {n: t.to(self.device, self._dtype) for n, t in self.distribution.mean.items()}
        layers = {
            name: make_noisy(
                module,
                mean,
                sources[name],
                calls=uses[name].calls,
                positions=uses[name].positions,
            )
            for name, module in modules.items()
        }
        for name, module in modules.items():
            module.forward = self._replacement(layers[name])
        self.independent = "example"
        if self._unread(expected, inputs):
            return layers
        for module in modules.values():
            del module.forward
        self._load(self.distribution.mean)
        return None

    def _unread(self, expected: Tensor, inputs: Inputs) -> bool:
        """Whether the layers' own weights are not read in any way but by the layers.

        Whatever they are filled with must not matter. They stay NaN, so that a prediction that
        does read them later counts as an error.
        """

        def filled_with(value: float) -> Tensor:
            mean = self.distribution.mean.items()
            self._load({name: torch.full_like(tensor, value) for name, tensor in mean})
            return self(inputs, torch.Generator(self.device).manual_seed(0))

        ones, undefined = filled_with(1.0), filled_with(torch.nan)
        finite = torch.isfinite(expected) <= torch.isfinite(undefined)
        return bool(finite.all()) and torch.allclose(ones, undefined, equal_nan=True)

    def _replacement(self, layer: NoisyLayer) -> Callable[[Tensor], Tensor]:
        def forward(input: Tensor) -> Tensor:  # noqa: A002, the name of torch's own argument
            if self._draws is None:
                raise CurvboundError("A noisy layer runs outside of a noisy forward pass.")
            return layer(input, self._draws)

        return forward

    def _load(self, parameters: Mapping[str, Tensor]) -> None:
        own = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, tensor in parameters.items():
                own[name].copy_(tensor)


def _cloned(inputs: Inputs) -> Inputs:
    if isinstance(inputs, Mapping):
        return {key: value.clone() for key, value in inputs.items()}
    return inputs.clone()


def _private_copy(model: nn.Module) -> nn.Module:
    try:
        twin = copy.deepcopy(model)
    except Exception as problem:
        raise CurvboundError(
            f"The network cannot be copied ({problem}): keep only leaf tensors in its attributes."
        ) from problem
    for tensor in twin.parameters():
        tensor.requires_grad_(False)
        tensor.grad = None
    return twin


def _check_coverage(model: nn.Module, distribution: Distribution) -> None:
    own: dict[str, Any] = dict(model.named_parameters())
    for name, tensor in distribution.mean.items():
        if name not in own or own[name].shape != tensor.shape:
            raise CurvboundError(
                f"The distribution belongs to another architecture: the network has no parameter "
                f"'{name}' of shape {tuple(tensor.shape)}."
            )
    for name in trainable_parameters(model):
        if name not in distribution.mean:
            raise CurvboundError(
                f"The distribution says nothing about the trainable parameter '{name}': include "
                "it, or freeze it with requires_grad_(False)."
            )
