"""The landscape: a network, a loss and data, at the network's current weights."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from curvbound.backends import twice_differentiable
from curvbound.batches import Inputs, Replay, chunks, open_data, place, random_state
from curvbound.errors import CurvboundError
from curvbound.layers import layer_blocks, parameter_slices
from curvbound.losses import Loss, LossLike, OutputLoss, resolve_loss
from curvbound.memory import chunk_size, require_memory
from curvbound.outputs import logits_of
from curvbound.probe import check_model, probe_forward, trainable_parameters

__all__ = ["Landscape"]

Reduced = TypeVar("Reduced", Tensor, tuple[Tensor, ...], dict[str, Tensor])
LayerChoice = str | Sequence[str] | None

_PROBE_EXAMPLES = 4


class Landscape:
    """A network, a loss and data, checked once and ready for curvature calculations.

    The loss is the mean over all labels of the data (the objects of the papers are means too).
    The network is never changed: no hooks stay, and mode, buffers, gradients and ``requires_grad``
    are as they were. Everything is calculated at the weights the network has at that moment.

    >>> import torch, curvbound.landscape as cb
    >>> X, y = torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    >>> land = cb.Landscape(torch.nn.Linear(3, 2), (X, y))
    >>> land.size, land.n, list(land.parameters)
    (8, 6, ['weight', 'bias'])

    Args:
        model: Any network in evaluation mode. Frozen parameters (``requires_grad=False``) are
            constants; a parameter used under two names counts once.
        data: ``(X, y)`` tensors, ``Examples``, a data set, a ``DataLoader``, or any re-iterable of
            ``(input, target)`` pairs or of dictionaries with ``labels``. Floating-point inputs are
            converted to the network's precision.
        loss: ``"cross_entropy"``, ``"mse"``, ``"binary_cross_entropy"`` (of logits), or a
            twice-differentiable function of (outputs, targets) that returns the mean over a batch.
        batch_size: Examples handled at once; None chooses by memory and kind of layers.
        parameters: Names of parameters or layers to restrict the landscape to; None means all
            trainable ones.
        memory: Bytes that may be used for intermediate results; None means half of what is free.

    Attributes:
        model: The network.
        loss: The loss as a :class:`~curvbound.losses.Loss`.
        parameters: Trainable parameters by name, in the order of the flat parameter vector.
        slices: Where each of them lies in the flat vector.
        layers: Layer blocks by name.
        size: Number of parameters P.
        n: Number of examples.
        terms: Number of labels the mean loss is taken over (n unless an example has several).
        frozen: Names of the parameters that are held constant.
        piecewise_linear: Whether the outputs are piecewise linear in every single layer's output,
            so that every layer's Hessian block equals its Gauss-Newton block (001-E3).
        curved: The operations that make it otherwise.
        batch_size: Examples handled at once.
        dtype: Floating-point type of the parameters.
        device: Where they are.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        *,
        loss: LossLike | Loss = "cross_entropy",
        batch_size: int | None = None,
        parameters: LayerChoice = None,
        memory: int | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise CurvboundError(
                f"The model must be a torch.nn.Module, not {type(model).__name__}."
            )
        if batch_size is not None and batch_size < 1:
            raise CurvboundError(f"batch_size must be at least 1, not {batch_size}.")
        check_model(model)
        self.model = model
        self.loss = resolve_loss(loss)
        self._source = open_data(data)
        self._random_state = torch.get_rng_state()
        self.parameters = trainable_parameters(model)
        first = next(iter(self.parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        self._look(batch_size, memory)
        if parameters is not None:
            self._restrict(parameters)
        self.slices = parameter_slices(self.parameters)
        self.size = sum(tensor.numel() for tensor in self.parameters.values())
        self.frozen = tuple(name for name, _ in model.named_parameters() if name not in self.slices)
        self.layers = layer_blocks(model, self.parameters, self._use)

    def _first_examples(self) -> tuple[Inputs, Tensor]:
        for inputs, targets in Replay(self._source, self._random_state):
            if len(targets):
                inputs, targets = next(chunks([(inputs, targets)], _PROBE_EXAMPLES))
                return place(inputs, self.device, self.dtype), targets.to(self.device)
        raise CurvboundError("The data are empty: there is not a single example.")

    def _look(self, batch_size: int | None, memory: int | None) -> None:
        inputs, targets = self._first_examples()
        with random_state(self._random_state), twice_differentiable(self.model):
            found = probe_forward(self.model, lambda: self.forward(inputs), len(targets))
        self.loss.check(found.outputs, targets)
        self.n = self.terms = 0
        for _, labels in Replay(self._source, self._random_state):
            self.loss.check(found.outputs, targets, labels)
            self.n += len(labels)
            self.terms += self.loss.count(labels)
        if self.terms == 0:
            raise CurvboundError("Every label is -100 (ignored): there is nothing to average.")
        self._finite(float(self.loss.mean(found.outputs, targets)))
        self.curved = tuple(sorted(found.curved))
        self.piecewise_linear = not self.curved
        self._use = found.use
        self.saved_bytes = found.saved_bytes
        weights = sum(p.numel() * p.element_size() for p in self.model.parameters())
        self.memory = require_memory(memory, self.device, weights, found.saved_bytes)
        self.batch_size = min(batch_size or chunk_size(found, weights, memory), self.n)

    def _restrict(self, choice: LayerChoice) -> None:
        self.slices = parameter_slices(self.parameters)
        self.layers = layer_blocks(self.model, self.parameters, self._use)
        names = set(self.choose(choice))
        self.parameters = {name: p for name, p in self.parameters.items() if name in names}

    def choose(self, choice: LayerChoice) -> tuple[str, ...]:
        """Parameter names, in order, of a layer, a parameter, or a list of them (None: all).

        The name of a module without parameters of its own stands for everything inside it.
        """
        if choice is None:
            return tuple(self.parameters)
        wanted: set[str] = set()
        for name in [choice] if isinstance(choice, str) else choice:
            if name in self.layers:
                inside = list(self.layers[name].parameters)
            else:
                inside = [p for p in self.parameters if p == name or p.startswith(f"{name}.")]
            if not inside:
                raise CurvboundError(
                    f"There is no trainable layer or parameter '{name}': the layers are "
                    f"{', '.join(self.layers)}."
                )
            wanted.update(inside)
        if not wanted:
            raise CurvboundError("The list of layers is empty: name at least one.")
        return tuple(name for name in self.parameters if name in wanted)

    def block_is_gauss_newton(self, layer: str) -> bool:
        """Whether the layer's Hessian block is known to equal its Gauss-Newton block (001-E3).

        True when everything after the layer is piecewise linear and the layer's output is linear
        in its parameters, which are used in one place only.
        """
        block = self.layers[layer]
        linear = block.kind in ("linear", "conv", "batch_norm", "embedding")
        return self.piecewise_linear and linear and block.used_once

    def differentiable(self) -> AbstractContextManager[None]:
        """Context in which every layer can be differentiated twice and in forward mode."""
        return twice_differentiable(self.model)

    def forward(self, inputs: Inputs, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """Outputs of the network, with ``parameters`` in place of its own, the others constant."""
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else ((inputs,), {})
        if parameters is None:
            raw = self.model(*args, **kwargs)
        else:
            constant = {name: p.detach() for name, p in self.model.named_parameters()}
            raw = torch.func.functional_call(self.model, constant | dict(parameters), args, kwargs)
        return logits_of(raw)

    def batches(self) -> Iterator[tuple[Inputs, Tensor]]:
        """Stream the data in chunks of ``batch_size``, on the network's device and precision."""
        source = Replay(self._source, self._random_state)
        for inputs, targets in chunks(source, self.batch_size):
            yield place(inputs, self.device, self.dtype), targets.to(self.device)

    def reduce(
        self,
        contribution: Callable[..., Reduced],
        over: Iterable[tuple[Any, ...]] | None = None,
    ) -> Reduced:
        """Sum ``contribution(inputs, targets)`` over the data: every pass goes through here.

        Args:
            contribution: Returns a tensor, a tuple or a dictionary of tensors for one chunk.
            over: What to sum over instead of :meth:`batches`, one tuple of arguments per chunk.
        """
        total: Reduced | None = None
        with self.differentiable():
            for item in self.batches() if over is None else over:
                part = contribution(*item)
                total = part if total is None else _add(total, part)
        if total is None:
            raise CurvboundError("The data were not empty before but are now: pass a re-iterable.")
        return total

    def loss_value(self) -> float:
        """Mean loss over all data."""

        def contribution(inputs: Inputs, targets: Tensor) -> Tensor:
            with torch.no_grad():
                return self.loss.sum(self.forward(inputs), targets).to(torch.float64)

        return self._finite(float(self.reduce(contribution)) / self.terms)

    def gradient(self) -> Tensor:
        """Gradient of the mean loss, a flat vector in parameter order."""
        names = tuple(self.parameters)

        def contribution(inputs: Inputs, targets: Tensor) -> Tensor:
            leaves = self.leaves(names)
            loss = self.loss.sum(self.forward(inputs, leaves), targets)
            return self.flatten(torch.autograd.grad(loss, list(leaves.values()), allow_unused=True))

        gradient = self.reduce(contribution) / self.terms
        self._finite(float(gradient.sum()))
        return gradient

    def _finite(self, value: float) -> float:
        if value - value != 0:
            raise CurvboundError(
                "The loss of the data is not finite: look for infinite inputs or for weights "
                "that overflow."
            )
        return value

    def leaves(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Fresh tensors that share memory with the named parameters and require gradients."""
        return {name: self.parameters[name].detach().requires_grad_() for name in names}

    def flatten(
        self, tensors: Sequence[Tensor | None], names: Sequence[str] | None = None
    ) -> Tensor:
        """Concatenate per-parameter tensors (None: zero) in the order of ``names``."""
        like = [self.parameters[name] for name in names or self.parameters]
        return torch.cat(
            [
                torch.zeros_like(p).reshape(-1) if t is None else t.reshape(-1)
                for t, p in zip(tensors, like, strict=True)
            ]
        ).detach()

    def unflatten(self, vector: Tensor, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Cut a flat vector into parameters by name, the inverse of :meth:`flatten`."""
        chosen = names or tuple(self.parameters)
        sizes = [self.parameters[name].numel() for name in chosen]
        parts = torch.split(vector, sizes)
        return {
            name: part.view_as(self.parameters[name])
            for name, part in zip(chosen, parts, strict=True)
        }

    def fingerprint(self) -> tuple[tuple[int, int, int], ...]:
        """Changes when a weight or a buffer of the network changes, however that was done."""
        tensors = (*self.model.parameters(), *self.model.buffers())
        return tuple((t.data_ptr(), t._version, _checksum(t.detach())) for t in tensors)

    @property
    def output_loss(self) -> OutputLoss:
        """The loss, refused if its output Hessian is not known in closed form."""
        if not isinstance(self.loss, OutputLoss):
            raise CurvboundError(
                f"The output Hessian of the loss '{self.loss.name}' is not known: use "
                "cross_entropy, mse or binary_cross_entropy, or the Hessian operator."
            )
        return self.loss

    def __repr__(self) -> str:
        frozen = f", {len(self.frozen)} parameters held constant" if self.frozen else ""
        return (
            f"Landscape({type(self.model).__name__}: {self.size:,} parameters in "
            f"{len(self.layers)} layers{frozen}; {self.loss.name} over {self.n:,} examples, "
            f"{self.batch_size} at a time)"
        )


def _add(total: Any, part: Any) -> Any:
    if isinstance(total, Tensor):
        return total.add_(part)
    if isinstance(total, dict):
        return {key: value.add_(part[key]) for key, value in total.items()}
    return tuple(a.add_(b) for a, b in zip(total, part, strict=True))


def _checksum(tensor: Tensor) -> int:
    if tensor.numel() == 0 or tensor.is_complex():
        return 0
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return int(tensor.contiguous().view(bits).sum(dtype=torch.int64))
