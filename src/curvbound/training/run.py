"""One training run and its folder: from the first step, or the last saved one, to the end."""

import dataclasses
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError
from curvbound.training.batches import Batches
from curvbound.training.checkpoints import RunFolder, differences, read_weights, write_weights
from curvbound.training.checks import describe_network
from curvbound.training.evaluation import Evaluation, evaluate, evaluate_weights
from curvbound.training.loop import EpochLog, Loop
from curvbound.training.progress import TrainingBar, training_bar
from curvbound.training.recipes import Recipe

__all__ = ["Run", "TrainingResult"]

_LOOK_SECONDS = 0.25  # how often the bar is drawn and divergence looked for
_SAVING_SHARE = 20  # a state is saved at most every so many times the time that saving takes


@dataclass(frozen=True)
class TrainingResult:
    """What training brought.

    Attributes:
        model: The trained network (the object that was given).
        init: The weights before training, as a state dict.
        final: The weights after training.
        recipe: The recipe with all overrides.
        seed: Seed of order, augmentation and dropout.
        epochs: Epochs done, fewer than the recipe's if its `stop_error` was reached.
        test_loss: Mean cross-entropy of the final weights on the test data; None without them.
        test_error: Error on them; None without them.
        history: One entry per epoch.
        seconds: Time spent, over all resumptions.
        files: Where `init`, `final`, `record` and `epoch-NNNN` are; empty without `out`.
        evaluation: Computes loss and error of the final weights on the training data.
    """

    model: nn.Module = field(repr=False)
    init: dict[str, Tensor] = field(repr=False)
    final: dict[str, Tensor] = field(repr=False)
    recipe: Recipe
    seed: int
    epochs: int
    test_loss: float | None
    test_error: float | None
    history: list[EpochLog] = field(repr=False)
    seconds: float
    files: dict[str, Path]
    evaluation: Callable[[], Evaluation] = field(repr=False)

    @property
    def train_loss(self) -> float:
        """Mean cross-entropy of the final weights on the training data, without augmentation."""
        return self._trained.loss

    @property
    def train_error(self) -> float:
        """Error of the final weights on the training data, without augmentation."""
        return self._trained.error

    @cached_property
    def _trained(self) -> Evaluation:
        # A further pass over the data, which costs a third of an epoch: only for who asks.
        return self.evaluation()


class Run:
    """One training run with its folder, if it has one."""

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        test: Any,
        recipe: Recipe,
        seed: int,
        kept: list[int],
        save_seconds: float,
    ) -> None:
        self._loop = Loop(model, batches, recipe, seed)
        self._model, self._batches, self._test = model, batches, test
        self._recipe, self._seed, self._kept = recipe, seed, kept
        self._init = _copy(model.state_dict())
        self._folder: RunFolder | None = None
        self._settings: dict[str, Any] = {}
        self._data_name: str | None = None
        self._earlier_seconds = 0.0
        self._started = time.perf_counter()
        self._save_seconds = save_seconds
        self._next_look = self._started + _LOOK_SECONDS
        self._next_save = self._started + save_seconds

    def attach(self, folder: RunFolder, *, resume: bool, name: str | None) -> None:
        """Begin a run in a folder, or go back to where the run in it was."""
        if not resume:
            folder.refuse_if_used()
        self._folder, self._data_name = folder, name
        self._settings = {
            "recipe": {k: v for k, v in self._recipe.settings().items() if k != "description"},
            "seed": self._seed,
            "trajectory": self._kept,
            "data": self._batches.fingerprint(),
            "network": describe_network(self._model),
        }
        if folder.record.exists():
            self._refuse_differences(folder.load_record()["settings"])
            folder.prepare()
            folder.state.unlink(missing_ok=True)  # a kill may have come just before this
        elif folder.state.exists():
            state = folder.load_state()
            self._refuse_differences(state["settings"])
            folder.prepare()
            self._init = read_weights(folder.init)
            self._loop.load(state["loop"])
            self._earlier_seconds = state["seconds"]
        else:
            folder.prepare()
            write_weights(folder.init, self._init)
            self._save()

    def finished(self) -> TrainingResult | None:
        """The result of a run that had finished before; its weights go into the model."""
        if self._folder is None or not self._folder.record.exists():
            return None
        record = self._folder.load_record()
        self._init = read_weights(self._folder.init)
        final = read_weights(self._folder.final)
        self._model.load_state_dict(final)
        self._loop.history = [EpochLog(**log) for log in record["history"]]
        numbers = record["result"]
        trained = Evaluation(numbers.pop("train_loss"), numbers.pop("train_error"))
        return self._result(final, lambda: trained, **numbers, seconds=record["seconds"])

    def complete(self, progress: bool | None) -> TrainingResult:
        """Train to the end."""
        loop, epochs = self._loop, self._recipe.epochs
        try:
            with training_bar(
                progress, epochs=epochs, steps=self._batches.steps, done=loop.done
            ) as bar:
                while loop.epoch < epochs and not self._stop_reached():
                    loop.run_epoch(self._after_step(bar))
                    self._end_epoch(bar)
            loop.clear_gradients()
            return self._finish()
        except CurvboundError:
            self._model.load_state_dict(self._init)
            raise

    def _after_step(self, bar: TrainingBar) -> Callable[[], None]:
        def look() -> None:
            now = time.perf_counter()
            if now < self._next_look and now < self._next_save:
                return
            self._refuse_divergence()
            if bar.shown:
                bar.update(self._loop.done, *self._loop.running())
            self._next_look = now + _LOOK_SECONDS
            if self._folder is not None and now >= self._next_save:
                self._save()

        return look

    def _end_epoch(self, bar: TrainingBar) -> None:
        self._refuse_divergence()
        tested = None if self._test is None else evaluate(self._model, self._test)
        if tested is not None:
            bar.test(tested.error)
        bar.update(self._loop.done, *self._loop.running())
        self._loop.end_epoch(self._seconds(), tested)
        if self._folder is not None and self._loop.epoch in self._kept:
            write_weights(self._folder.epoch(self._loop.epoch), self._model.state_dict())

    def _stop_reached(self) -> bool:
        limit = self._recipe.stop_error
        if limit is None or self._loop.step > 0 or self._loop.epoch == 0:
            return False
        return evaluate(self._model, self._batches.everything()).error <= limit

    def _finish(self) -> TrainingResult:
        final = _copy(self._model.state_dict())
        last = self._loop.history[-1]
        tested = None if self._test is None else last.test_loss
        numbers = [weight for weight in final.values() if weight.is_floating_point()]
        if not (all(map(_finite, numbers)) and _finite(tested)):
            self._refuse_last_step()
        result = self._result(
            final,
            lambda: evaluate_weights(self._model, final, self._batches.everything()),
            epochs=self._loop.epoch,
            test_loss=tested,
            test_error=None if self._test is None else last.test_error,
            seconds=self._seconds(),
        )
        if self._folder is not None:
            if not _finite(result.train_loss):
                self._refuse_last_step()
            self._folder.finish(final, self._record(result))
        return result

    def _record(self, result: TrainingResult) -> dict[str, Any]:
        names = ("epochs", "train_loss", "train_error", "test_loss", "test_error")
        return {
            "format": 1,
            "result": {name: getattr(result, name) for name in names},
            "seconds": result.seconds,
            "settings": self._settings,
            "data": self._data_name,
            "versions": {
                "curvbound": version("curvbound"),
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
            "history": [dataclasses.asdict(log) for log in result.history],
        }

    def _result(
        self, final: dict[str, Tensor], evaluation: Callable[[], Evaluation], **numbers: Any
    ) -> TrainingResult:
        files = {}
        if self._folder is not None:
            folder = self._folder
            files = {"init": folder.init, "final": folder.final, "record": folder.record}
            reached = [epoch for epoch in self._kept if epoch <= self._loop.history[-1].epoch]
            files |= {folder.epoch(epoch).stem: folder.epoch(epoch) for epoch in reached}
        return TrainingResult(
            model=self._model,
            init=self._init,
            final=final,
            recipe=self._recipe,
            seed=self._seed,
            history=self._loop.history,
            files=files,
            evaluation=evaluation,
            **numbers,
        )

    def _save(self) -> None:
        assert self._folder is not None
        begun = time.perf_counter()
        state = {"loop": self._loop.state(), "settings": self._settings, "seconds": self._seconds()}
        self._folder.save_state(state)
        now = time.perf_counter()
        self._next_save = now + max(self._save_seconds, _SAVING_SHARE * (now - begun))

    def _seconds(self) -> float:
        return self._earlier_seconds + time.perf_counter() - self._started

    def _refuse_differences(self, before: dict[str, Any]) -> None:
        found = list(differences(before, self._settings))
        if found:
            more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
            raise CurvboundError(
                f"The run in {self._folder_path()} cannot be resumed with other settings: "
                f"{'; '.join(found[:3])}{more}."
            )

    def _folder_path(self) -> Path:
        assert self._folder is not None
        return self._folder.path

    def _refuse_divergence(self) -> None:
        step = self._loop.diverged_at()
        if step is not None:
            self._refuse(f"at step {step + 1} of epoch {self._loop.epoch + 1}")

    def _refuse_last_step(self) -> None:
        self._refuse(f"after the last step of epoch {self._loop.epoch}")

    def _refuse(self, where: str) -> None:
        # The same run would diverge again, so nothing of it is worth keeping.
        if self._folder is not None:
            self._folder.discard()
        rate = self._loop.rate
        raise CurvboundError(
            f"Training diverged: the loss was no longer finite {where}; lower the learning rate "
            f"(recipe {self._recipe.name!r} has lr={self._recipe.lr:g}, {rate:g} at that time)."
        )


def _copy(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


def _finite(value: Tensor | float | None) -> bool:
    return value is None or bool(torch.isfinite(torch.as_tensor(value)).all())
