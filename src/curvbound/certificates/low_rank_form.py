"""The closed-form posterior of 000 for a full Fisher matrix of sampled gradients."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.example_gradients import example_gradients
from curvbound.curvature.fisher import uniform_numbers
from curvbound.errors import CurvboundError
from curvbound.gaussians import LowRank
from curvbound.landscape import Landscape

__all__ = ["closed_form_low_rank", "sampled_gradients"]


def closed_form_low_rank(
    land: Landscape,
    beta: float,
    prior_variance: float | Mapping[str, float],
    *,
    samples: int = 100,
    seed: int = 0,
) -> LowRank:
    """Posterior ``beta (F + (beta / lambda) I)^-1`` for a full sampled Fisher matrix F (000 eq. 6).

    F has rank ``samples``, so nothing of size P x P is formed: determinant lemma and Woodbury
    formula instead of the recursion of Sherman and Morrison (000-C8). Unlike the layer-wise
    structures it knows how layers interact; unlike them it leaves all but ``samples`` directions
    at the prior variance.

    >>> land = Landscape(torch.nn.Linear(3, 2), (torch.randn(6, 3), torch.tensor([0, 1] * 3)))
    >>> closed_form_low_rank(land, beta=0.01, prior_variance=1.0, samples=4).gradients.shape
    torch.Size([4, 8])

    Args:
        land: The network at the posterior mean, with the data.
        beta: Positive weight of the KL term.
        prior_variance: lambda, one number or one for each layer.
        samples: Examples whose gradient enters F.
        seed: Of the choice of the examples and of their labels.
    """
    gradients = sampled_gradients(land, samples, seed=seed)
    return LowRank(land.parameters, gradients, beta, prior_variance)


def sampled_gradients(land: Landscape, samples: int, *, seed: int = 0) -> Tensor:
    """Rows J whose ``J^T J`` is an unbiased estimate of the Fisher matrix (000 eq. 10).

    Labels are drawn from the network's own predictions. With ``samples`` equal to the number of
    examples, ``J^T J`` is the matrix of ``fisher(land, labels="sampled", seed=seed)``.

    Args:
        land: The network with the data.
        samples: Number of rows: examples drawn without replacement.
        seed: Of the choice of the examples and of their labels.

    Returns:
        ``(samples, P)``: per-example gradients divided by sqrt(samples).
    """
    if land.terms != land.n:
        raise CurvboundError("Sampled gradients need exactly one label for each example.")
    if not 1 <= samples <= land.n:
        raise CurvboundError(
            f"samples must be between 1 and the {land.n} examples there are, not {samples}."
        )
    order = np.random.default_rng([seed, samples]).permutation(land.n)
    chosen = torch.from_numpy(np.sort(order[:samples]))
    rows, start = [], 0
    with land.differentiable():
        for inputs, targets in land.batches():
            stop = start + len(targets)
            here = chosen[(chosen >= start) & (chosen < stop)] - start
            if len(here):
                uniform = uniform_numbers(seed, 0, start, targets)
                rows.append(_rows(land, inputs, targets, uniform, here.to(targets.device)))
            start = stop
    return torch.cat(rows) / math.sqrt(samples)


def _rows(
    land: Landscape, inputs: Inputs, targets: Tensor, uniform: Tensor, here: Tensor
) -> Tensor:
    """Flat gradients of the chosen examples of one chunk, for labels drawn from the model."""
    if isinstance(inputs, Mapping):
        inputs = {key: value[here] for key, value in inputs.items()}
    else:
        inputs = inputs[here]
    with torch.no_grad():
        outputs = land.forward(inputs)
        labels = land.output_loss.sample(outputs, targets[here], uniform[here])
        cotangents = land.output_loss.gradient(outputs, labels).unsqueeze(0)
    names = tuple(land.parameters)
    parts = [
        torch.cat([gradients[name].flatten(1) for name in names], 1)
        for _, gradients in example_gradients(land, names, inputs, cotangents)
    ]
    return torch.cat(parts)
