"""Second moments of inputs and of the patches a convolution sees, in float64, streamed."""

import torch
from torch import Tensor

ROWS = 4096


def second_moment(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """E[x] and E[x x^T] of flattened inputs."""
    size = inputs[0].numel()
    total = torch.zeros(size, dtype=torch.float64)
    moment = torch.zeros(size, size, dtype=torch.float64)
    for start in range(0, len(inputs), ROWS):
        block = inputs[start : start + ROWS].flatten(1).double()
        total += block.sum(0)
        moment += block.T @ block
    return total / len(inputs), moment / len(inputs)


def near_pixel_moment(images: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """E[x] and E[x x^T] of pictures (N, C, H, W); entries of rows `reach` or more apart are 0.

    A patch of height k only ever needs pixels less than k rows apart.
    """
    count, channels, height, width = images.shape
    line = channels * width
    total = torch.zeros(height * line, dtype=torch.float64)
    moment = torch.zeros(height * line, height * line, dtype=torch.float64)
    for start in range(0, count, ROWS):
        # Row by row of the picture, so that neighbouring rows are one block of memory.
        rows = images[start : start + ROWS].permute(2, 1, 3, 0).reshape(height * line, -1).double()
        total += rows.sum(1)
        for first in range(0, height * line, line):
            last = min(first + reach * line, height * line)
            moment[first : first + line, first:last] += (
                rows[first : first + line] @ rows[first:last].T
            )
    moment = moment.triu() + moment.triu(1).T
    order = torch.arange(height * line).view(height, channels, width).transpose(0, 1).flatten()
    return total[order] / count, moment[order[:, None], order] / count


def patch_moments(
    mean: Tensor, moment: Tensor, shape: tuple[int, int, int], kernel: int, padding: int
) -> tuple[Tensor, Tensor]:
    """E[X] E[X]^T and E[X X^T], X the (C k k, positions) matrix of all patches of one picture.

    The mean is taken position by position, as in 001 App. (conv1 of LeNet5).
    """
    channels, height, width = shape
    outside = channels * height * width
    pixels = torch.arange(outside).view(1, channels, height, width)
    padded = torch.nn.functional.pad(pixels, (padding,) * 4, value=outside)
    patches = padded.unfold(2, kernel, 1).unfold(3, kernel, 1)[0]
    rows, columns = patches.shape[1:3]
    index = patches.permute(1, 2, 0, 3, 4).reshape(rows * columns, -1)
    mean = torch.cat([mean, mean.new_zeros(1)])
    grown = moment.new_zeros(outside + 1, outside + 1)
    grown[:outside, :outside] = moment
    means = mean[index]
    second = sum(grown[i[:, None], i] for i in index)
    return means.T @ means, second


def spectral_facts(mean_part: Tensor, second: Tensor) -> tuple[float, float, float]:
    """||E[x]E[x]^T|| / ||Sigma_x||, |<mean direction, v1>| and lam1/lam2 of E[x x^T]."""
    mean_values, mean_vectors = torch.linalg.eigh(mean_part)
    covariance = torch.linalg.eigvalsh(second - mean_part)
    values, vectors = torch.linalg.eigh(second)
    inner = (mean_vectors[:, -1] @ vectors[:, -1]).abs()
    return (
        float(mean_values[-1] / covariance[-1]),
        float(inner),
        float(values[-1] / values[-2]),
    )
