"""The training loop: one epoch at a time, resumable after any step."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from curvbound.errors import CurvboundError
from curvbound.training.batches import Batches, derived_seed
from curvbound.training.optimizers import make_optimizer
from curvbound.training.recipes import Recipe
from curvbound.training.schedules import make_scheduler, resolve_schedule

__all__ = ["EpochLog", "Loop", "forked_generators"]


@dataclass(frozen=True)
class EpochLog:
    """What one epoch brought.

    Attributes:
        epoch: Number of epochs done, from 1.
        loss: Mean training loss over the epoch, while the weights moved.
        error: Training error over the epoch, likewise.
        lr: Learning rate of the last step.
        seconds: Seconds since the start of training.
        test_loss: Mean cross-entropy on the test data after the epoch, if there are any.
        test_error: Error on them.
    """

    epoch: int
    loss: float
    error: float
    lr: float
    seconds: float
    test_loss: float | None = None
    test_error: float | None = None


class Loop:
    """Model, optimiser and position in the data; its `state` is all that resuming needs.

    Loss and error stay on the device until somebody asks for them, so that a step costs what it
    costs in a bare loop.
    """

    def __init__(self, model: nn.Module, batches: Batches, recipe: Recipe, seed: int) -> None:
        self.model = model
        self.epoch = 0
        self.step = 0
        self.history: list[EpochLog] = []
        self._batches, self._recipe, self._seed = batches, recipe, seed
        self._device = next(model.parameters()).device
        self._optimizer = make_optimizer(
            recipe.optimizer,
            model.parameters(),
            lr=recipe.lr,
            momentum=recipe.momentum,
            nesterov=recipe.nesterov,
            weight_decay=recipe.weight_decay,
        )
        self._schedule = resolve_schedule(recipe.schedule)
        self._scheduler = make_scheduler(recipe.schedule, self._optimizer)
        self._rates = [group["lr"] for group in self._optimizer.param_groups]
        self._generator_states: list[Tensor] | None = None
        self._losses: list[Tensor] = []
        self._counts: list[int] = []
        self._begin_epoch()

    @property
    def done(self) -> int:
        """Steps done in all."""
        return self.epoch * self._batches.steps + self.step

    @property
    def rate(self) -> float:
        """Learning rate of the last step."""
        return float(self._optimizer.param_groups[0]["lr"])

    def run_epoch(self, after_step: Callable[[], None]) -> None:
        """Do the steps that are left of the current epoch."""
        self.model.train()
        _seed_generators(self._device, derived_seed("model", self._seed, self.epoch))
        stream = self._batches.epoch(self._seed, self.epoch, self.step)
        if self._generator_states is not None:
            _set_generator_states(self._device, self._generator_states)
            self._generator_states = None
        for inputs, targets in stream:
            self._set_rate()
            self._take_step(inputs, targets)
            self.step += 1
            after_step()

    def end_epoch(self, seconds: float, test: tuple[float, float] | None) -> None:
        """Write the epoch into the history and go to the next."""
        loss, error = self.running()
        log = EpochLog(self.epoch + 1, loss, error, self.rate, seconds, *(test or ()))
        self.history.append(log)
        if self._scheduler is not None:
            self._scheduler.step()
        self.epoch += 1
        self._begin_epoch()

    def running(self) -> tuple[float, float]:
        """Mean loss and error over the epoch so far."""
        counts = torch.tensor(self._counts, dtype=torch.float64)
        total = float(counts.sum())
        losses = torch.stack(self._losses).double().cpu()
        return float((losses @ counts) / total), float(self._wrong) / total

    def diverged_at(self) -> int | None:
        """The first step of this epoch (from 0) whose loss was not finite, if any."""
        if not self._losses:
            return None
        bad = ~torch.isfinite(torch.stack(self._losses))
        return int(bad.nonzero()[0]) if bool(bad.any()) else None

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, as tensors and plain values."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scheduler": None if self._scheduler is None else self._scheduler.state_dict(),
            "generators": _generator_states(self._device),
            "epoch": self.epoch,
            "step": self.step,
            "losses": list(self._losses),
            "counts": list(self._counts),
            "wrong": self._wrong,
            "history": [dataclasses.asdict(log) for log in self.history],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go back to where `state` was taken."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
        self.epoch, self.step = state["epoch"], state["step"]
        self._generator_states = state["generators"] if self.step else None
        self._losses = [loss.to(self._device) for loss in state["losses"]]
        self._counts = list(state["counts"])
        self._wrong = state["wrong"].to(self._device)
        self.history = [EpochLog(**log) for log in state["history"]]

    def clear_gradients(self) -> None:
        """Free the memory of the last gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def _begin_epoch(self) -> None:
        self.step = 0
        self._losses = []
        self._counts = []
        self._wrong = torch.zeros((), dtype=torch.int64, device=self._device)

    def _set_rate(self) -> None:
        if self._schedule is None:
            return
        progress = self.done / (self._recipe.epochs * self._batches.steps)
        factor = self._schedule(progress)
        if not 0.0 <= factor < math.inf:
            raise CurvboundError(
                f"The schedule gave the factor {factor!r} at progress {progress:.4f}: "
                "it must be at least 0 and finite."
            )
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def _take_step(self, inputs: Tensor, targets: Tensor) -> None:
        """One step; the loss and error kept are those before it.

        The optimiser gets a closure because some (L-BFGS, perturbed ones) evaluate repeatedly.
        """
        first: list[tuple[Tensor, Tensor]] = []

        def closure() -> Tensor:
            self._optimizer.zero_grad(set_to_none=True)
            logits = self.model(inputs)
            loss = functional.cross_entropy(
                logits, targets, label_smoothing=self._recipe.label_smoothing
            )
            loss.backward()  # type: ignore[no-untyped-call]
            if not first:
                first.append((loss.detach(), logits.detach()))
            return loss

        self._optimizer.step(closure)  # type: ignore[arg-type]
        loss, logits = first[0]
        self._losses.append(loss)
        self._counts.append(len(targets))
        self._wrong += (logits.argmax(1) != targets).sum()


@contextmanager
def forked_generators(device: torch.device) -> Iterator[None]:
    """Leave torch's global generators as they were, whatever a model draws from them."""
    devices = [] if device.type == "cpu" else [device.index or 0]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(devices, device_type=kind):
        yield


def _seed_generators(device: torch.device, seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _generator_states(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    if device.type != "cpu":
        states.append(torch.get_device_module(device).get_rng_state())
    return states


def _set_generator_states(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[1])
