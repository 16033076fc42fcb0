"""Train a network by a recipe: reproducible from a seed, resumable after a kill at any moment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from curvbound.errors import CurvboundError
from curvbound.training.augmentation import resolve_augmentation
from curvbound.training.batches import make_batches
from curvbound.training.checkpoints import RunFolder
from curvbound.training.checks import check_batch_norm, check_model, probe
from curvbound.training.evaluation import modes_restored, place
from curvbound.training.loop import forked_generators
from curvbound.training.recipes import Recipe, get_recipe
from curvbound.training.run import Run, TrainingResult

__all__ = ["TrainingResult", "train"]


def train(
    model: nn.Module,
    data: Any,
    recipe: str | Recipe = "fast",
    *,
    test: Any = None,
    epochs: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    trajectory: int | Sequence[int] = 0,
    progress: bool | None = None,
    save_seconds: float = 10.0,
    **overrides: Any,
) -> TrainingResult:
    """Train a classifier in place by a named recipe.

    The order of the examples, augmentation and dropout follow from the seed alone; torch's global
    generators are left as they were. If the loss diverges the network gets its weights back.

    Args:
        model: Gives one logit per class.
        data: A pair (inputs, targets), `Examples`, a `Dataset` (its test part serves as `test`),
            or a loader of such pairs.
        recipe: A name from `recipes()` or a `Recipe`.
        test: Data to evaluate on after each epoch.
        epochs: Instead of the recipe's.
        seed: Any whole number.
        out: Folder for `init.safetensors`, `final.safetensors` and `training.json`.
        resume: Go on with the run in `out`, which must have the same settings; a run that has not
            begun is begun, one that has finished is loaded.
        trajectory: Also keep the weights every so many epochs, or after the epochs listed.
        progress: Show a progress bar; None: if standard error is a terminal.
        save_seconds: Save the state for resuming about this often.
        **overrides: Settings of the recipe to replace, such as `lr` or `batch_size`.

    Raises:
        CurvboundError: If something does not fit, or the loss diverges.

    >>> import torch
    >>> x = torch.tensor([[-1.0], [1.0]]).repeat(64, 1)
    >>> y = torch.tensor([0, 1]).repeat(64)
    >>> train(nn.Linear(1, 2), (x, y), "001", epochs=2, lr=1.0).train_error
    0.0
    """
    chosen = get_recipe(recipe).replace(**overrides)
    if epochs is not None:
        chosen = chosen.replace(epochs=epochs)
    if hasattr(data, "train") and hasattr(data, "test"):
        data, test = data.train, data.test if test is None else test
    device, dtype = place(model)
    check_model(model)
    batches = make_batches(
        data,
        batch_size=chosen.batch_size,
        augmentation=resolve_augmentation(chosen.augmentation),
        device=device,
        dtype=dtype,
    )
    check_batch_norm(model, batches.smallest)
    kept = _trajectory_epochs(trajectory, chosen.epochs, out)
    with modes_restored(model), forked_generators(device):
        probe(model, batches.everything(), "training")
        if test is not None:
            probe(model, test, "test")
        run = Run(model, batches, test, chosen, seed, kept, save_seconds)
        if out is not None:
            run.attach(RunFolder(Path(out)), resume=resume, name=getattr(data, "name", None))
        elif resume:
            raise CurvboundError("There is nothing to resume without a folder: give out=.")
        return run.finished() or run.complete(progress)


def _trajectory_epochs(
    trajectory: int | Sequence[int], epochs: int, out: str | Path | None
) -> list[int]:
    """The epochs after which weights are kept."""
    if isinstance(trajectory, int):
        if trajectory < 0:
            raise CurvboundError(f"trajectory must be at least 0, not {trajectory}.")
        kept = list(range(trajectory, epochs + 1, trajectory)) if trajectory else []
    else:
        kept = sorted(set(trajectory))
        if kept and not 1 <= kept[0] <= kept[-1] <= epochs:
            raise CurvboundError(
                f"trajectory lists epochs {kept[0]} to {kept[-1]}, but they must be between 1 and "
                f"{epochs}."
            )
    if kept and out is None:
        raise CurvboundError("A trajectory is written to a folder: give out=.")
    return kept
