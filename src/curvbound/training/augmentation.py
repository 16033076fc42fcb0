"""Augmentation of whole batches of images, drawn from an explicit generator."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from curvbound.errors import CurvboundError

__all__ = ["AUGMENTATIONS", "Augmentation", "crop_flip", "resolve_augmentation"]

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

_PADDING = 4


def crop_flip(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Crop images out of their 4-pixel zero-padded selves, mirror half (002 sec. 7.1, 4-crop-f).

    Args:
        inputs: Images (B, C, H, W).
        generator: Source of the offsets and mirrorings, on the CPU.
    """
    if inputs.ndim != 4:
        raise CurvboundError(
            f"The augmentation 'crop-flip' needs images (channels, height, width), but the inputs "
            f"have shape {tuple(inputs.shape[1:])}: train with augmentation=None."
        )
    count, _, height, width = inputs.shape
    offsets = torch.randint(0, 2 * _PADDING + 1, (count, 2), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
    rows = offsets[:, :1] + torch.arange(height)
    columns = offsets[:, 1:] + torch.arange(width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    device = inputs.device
    padded = functional.pad(inputs, (_PADDING,) * 4)
    cropped = padded[
        torch.arange(count, device=device)[:, None, None],
        :,
        rows.to(device)[:, :, None],
        columns.to(device)[:, None, :],
    ]
    return cropped.permute(0, 3, 1, 2).contiguous()


AUGMENTATIONS: dict[str, Augmentation] = {"crop-flip": crop_flip}


def resolve_augmentation(augmentation: str | Augmentation | None) -> Augmentation | None:
    """The function that `augmentation` names or is."""
    if isinstance(augmentation, str):
        if augmentation not in AUGMENTATIONS:
            raise CurvboundError(
                f"There is no augmentation {augmentation!r}; known are "
                f"{', '.join(AUGMENTATIONS)}, or give a function of (inputs, generator)."
            )
        return AUGMENTATIONS[augmentation]
    return augmentation
