"""Training data as batches whose order depends on (seed, epoch) alone."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from curvbound.errors import CurvboundError
from curvbound.training.augmentation import Augmentation

__all__ = ["Batches", "LoaderBatches", "TensorBatches", "derived_seed", "make_batches"]


def derived_seed(*parts: int | str) -> int:
    """A seed that depends on all parts and on nothing else."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Batches(Protocol):
    """What the trainer needs to know of its data."""

    steps: int
    smallest: int

    def epoch(self, seed: int, epoch: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch after the first `skip`, on the device of the model."""

    def everything(self) -> Any:
        """The data in the form that `evaluate` takes."""

    def fingerprint(self) -> dict[str, Any]:
        """What identifies the data, to compare before a run is resumed."""


def make_batches(
    data: Any,
    *,
    batch_size: int,
    augmentation: Augmentation | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Batches:
    """Batches of a pair of tensors (or `Examples`), or of a loader."""
    if is_loader(data):
        return LoaderBatches(data, augmentation=augmentation, device=device, dtype=dtype)
    inputs, targets = checked_pair(data, "training")
    return TensorBatches(
        cast_inputs(inputs, device, dtype),
        targets.to(device),
        batch_size=batch_size,
        augmentation=augmentation,
        content=getattr(data, "hash", None),
    )


class TensorBatches:
    """Inputs and targets in memory; a batch is one `index_select` of each."""

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        *,
        batch_size: int,
        augmentation: Augmentation | None,
        content: str | None,
    ) -> None:
        count = len(inputs)
        if batch_size > count:
            raise CurvboundError(
                f"The batch size {batch_size} exceeds the {count} training examples: "
                f"choose at most batch_size={count}."
            )
        self.steps = -(-count // batch_size)
        self.smallest = count % batch_size or batch_size
        self._inputs, self._targets = inputs, targets
        self._batch_size = batch_size
        self._augmentation = augmentation
        self._content = content

    def epoch(self, seed: int, epoch: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch after the first `skip`."""
        generator = torch.Generator().manual_seed(derived_seed("order", seed, epoch))
        order = torch.randperm(len(self._inputs), generator=generator).to(self._inputs.device)
        for step, chosen in enumerate(torch.split(order, self._batch_size)):
            if step < skip:
                continue
            inputs = self._inputs.index_select(0, chosen)
            if self._augmentation is not None:
                generator.manual_seed(derived_seed("augmentation", seed, epoch, step))
                inputs = self._augmentation(inputs, generator)
            yield inputs, self._targets.index_select(0, chosen)

    def everything(self) -> tuple[Tensor, Tensor]:
        """All inputs and targets."""
        return self._inputs, self._targets

    def fingerprint(self) -> dict[str, Any]:
        """Shape and SHA-256 of the contents."""
        return {"shape": list(self._inputs.shape), "sha256": self._content or self._sha256()}

    def _sha256(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self._inputs, self._targets):
            digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


class LoaderBatches:
    """A `DataLoader`, or any sized iterable of batches that can be gone through repeatedly.

    The trainer seeds the global generator before each epoch, from which a loader without a
    generator of its own draws its order; a loader's own generator is seeded here.
    """

    def __init__(
        self,
        loader: Any,
        *,
        augmentation: Augmentation | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        try:
            self.steps = len(loader)
        except TypeError:
            raise CurvboundError(
                "The loader has no length, without which a schedule cannot be followed: "
                "give a loader over a data set of known size, or a pair of tensors."
            ) from None
        if self.steps == 0:
            raise CurvboundError("The training loader has no batches: give it examples.")
        self.smallest = self._smallest_batch(loader)
        self._loader = loader
        self._augmentation = augmentation
        self._device, self._dtype = device, dtype

    @staticmethod
    def _smallest_batch(loader: Any) -> int:
        size: int = getattr(loader, "batch_size", None) or 2
        examples = _length(getattr(loader, "dataset", None))
        if examples is None or getattr(loader, "drop_last", False):
            return size
        return examples % size or size

    def epoch(self, seed: int, epoch: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch after the first `skip`, which are loaded and dropped at once."""
        own = getattr(self._loader, "generator", None)
        if own is not None:
            own.manual_seed(derived_seed("order", seed, epoch))
        set_epoch: Callable[[int], None] | None = getattr(
            getattr(self._loader, "sampler", None), "set_epoch", None
        )
        if set_epoch is not None:
            set_epoch(epoch)
        iterator = iter(self._loader)
        for _ in range(skip):
            next(iterator)
        return self._prepared(iterator, seed, epoch, skip)

    def _prepared(
        self, iterator: Iterator[Any], seed: int, epoch: int, step: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator()
        for batch in iterator:
            inputs, targets = checked_pair(batch, f"batch {step} of the training")
            inputs = cast_inputs(inputs, self._device, self._dtype)
            if self._augmentation is not None:
                generator.manual_seed(derived_seed("augmentation", seed, epoch, step))
                inputs = self._augmentation(inputs, generator)
            yield inputs, targets.to(self._device)
            step += 1

    def everything(self) -> Any:
        """The loader itself."""
        return self._loader

    def fingerprint(self) -> dict[str, Any]:
        """Sizes; the contents of a loader are not known without going through it."""
        return {
            "examples": _length(getattr(self._loader, "dataset", None)),
            "batches": self.steps,
            "batch_size": getattr(self._loader, "batch_size", None),
        }


def _length(dataset: Any) -> int | None:
    return len(dataset) if hasattr(dataset, "__len__") else None


def is_loader(data: Any) -> bool:
    """Whether data are an iterable of batches rather than one pair of tensors."""
    if isinstance(data, list):
        return not (data and all(isinstance(part, Tensor) for part in data))
    known = isinstance(data, tuple | Tensor) or hasattr(data, "targets")
    return hasattr(data, "__iter__") and not known


def checked_pair(data: Any, what: str) -> tuple[Tensor, Tensor]:
    """Inputs and targets, refused with one sentence when they cannot be learnt from."""
    try:
        inputs, targets = data
    except (TypeError, ValueError):
        raise CurvboundError(
            f"The {what} data must be a pair (inputs, targets), Examples or a loader of such "
            f"pairs, not {type(data).__name__}."
        ) from None
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        raise CurvboundError(
            f"The {what} data must be a pair of tensors, not of {type(inputs).__name__} and "
            f"{type(targets).__name__}: convert them with torch.as_tensor."
        )
    if inputs.ndim < 1 or targets.ndim != 1 or len(inputs) != len(targets):
        raise CurvboundError(
            f"The {what} data need one class number per input, but inputs have shape "
            f"{tuple(inputs.shape)} and targets {tuple(targets.shape)}."
        )
    if len(inputs) == 0:
        raise CurvboundError(f"The {what} data are empty: give at least one example.")
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise CurvboundError(
            f"The {what} targets must be class numbers of type int64, not {targets.dtype}."
        )
    # A finite sum has finite terms and takes one pass; only a doubtful one is looked at closely.
    doubtful = inputs.is_floating_point() and not bool(torch.isfinite(inputs.sum()))
    if doubtful and not bool(torch.isfinite(inputs).all()):
        bad = int((~torch.isfinite(inputs.flatten(1))).any(1).nonzero()[0])
        raise CurvboundError(
            f"The {what} inputs hold NaN or infinity, first in example {bad}: remove or repair it."
        )
    if int(targets.min()) < 0:
        raise CurvboundError(f"The {what} targets hold the negative class {int(targets.min())}.")
    return inputs, targets.long()


def cast_inputs(inputs: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Inputs where the model is and, unless they are whole numbers, in its precision."""
    return inputs.to(device, dtype) if inputs.is_floating_point() else inputs.to(device)
