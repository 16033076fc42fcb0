"""Initial weights by name, drawn from a seed of their own.

The prior of a certificate is centred at the initial weights, so that these have to be found
again exactly: the name and the seed say all about them, and the global random state plays no
part in them.
"""

import math
import re
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError
from curvbound.networks.attention import Positions
from curvbound.networks.toy import SharedSigmoidNetwork

__all__ = ["check_initialisation", "initialisations", "initialise"]

_Rule: TypeAlias = Callable[[Tensor, Tensor | None, bool, torch.Generator], None]

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm)
_WEIGHTED = (nn.Linear, nn.Conv2d, Positions, SharedSigmoidNetwork)
_MOST_SEED = 2**63 - 1


def initialisations() -> dict[str, str]:
    """Names that `initialise` knows, each with a description of one line."""
    return {
        "torch": "PyTorch's default: weights and biases uniform in +-1/sqrt(fan_in)",
        "he": "weights normal with variance 2/fan_in, biases 0 (002 App. E)",
        "gaussian-0.04": (
            "weights normal with standard deviation .04 (or any gaussian-SD), cut off at two of "
            "them, first layer's biases .1, others 0 (001 App. F; Dziugaite and Roy)"
        ),
    }


def initialise(model: nn.Module, init: str = "torch", seed: int = 0) -> None:
    """Draw new weights for ``model`` in place, and reset its normalisation layers.

    Matrices and filters are drawn in the order of ``model.modules()``, on the CPU wherever the
    model is. ``torch`` with seed s gives, bit for bit, the weights that PyTorch's own layers
    have when they are made in this order after ``torch.manual_seed(s)``. Scales and shifts of
    normalisation layers are 1 and 0 under every name.

    Args:
        model: A network of linear, convolutional (2-d) and normalisation layers.
        init: A name of `initialisations`.
        seed: Seed of the draw.

    Raises:
        CurvboundError: If the name or the seed is not valid, or a layer with parameters is of
            another kind; the model is then unchanged.
    """
    rule = check_initialisation(init, seed)
    layers = [layer for layer in model.modules() if _own_parameters(layer)]
    for layer in layers:
        if not isinstance(layer, _NORMS + _WEIGHTED):
            raise CurvboundError(
                f"The initialisation {init!r} is not defined for a layer of type "
                f"{type(layer).__name__}: initialise this network yourself."
            )
    generator = torch.Generator(device="cpu").manual_seed(seed)
    first = True
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, _NORMS):
                layer.reset_parameters()  # draws nothing: scale 1, shift 0, running statistics
            elif isinstance(layer, _WEIGHTED):
                bias = getattr(layer, "bias", None)
                rule(layer.weight, bias, first, generator)
                first = False


def check_initialisation(init: str, seed: int) -> _Rule:
    """The rule called ``init``.

    Raises:
        CurvboundError: If there is none, or ``seed`` cannot be one.
    """
    if not 0 <= seed <= _MOST_SEED:
        raise CurvboundError(f"The seed {seed} is not a whole number from 0 to 2^63-1.")
    if init == "torch":
        return _torch_default
    if init == "he":
        return _he
    match = re.fullmatch(r"gaussian-([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)", init)
    deviation = float(match[1]) if match else 0.0
    if not 0 < deviation < math.inf:
        raise CurvboundError(
            f"There is no initialisation {init!r}: choose torch, he, or gaussian-SD with a "
            f"positive standard deviation, such as gaussian-0.04."
        )
    return _truncated_gaussian(deviation)


def _own_parameters(layer: nn.Module) -> bool:
    return any(True for _ in layer.parameters(recurse=False))


def _fan_in(weight: Tensor) -> int:
    return weight[0].numel()


def _torch_default(
    weight: Tensor, bias: Tensor | None, first: bool, generator: torch.Generator
) -> None:
    # PyTorch's own routine and its precision, so that the bits agree with its layers'.
    draw = torch.empty(weight.shape, dtype=torch.float32, device="cpu")
    weight.copy_(nn.init.kaiming_uniform_(draw, a=math.sqrt(5), generator=generator))
    if bias is not None:
        bound = 1 / math.sqrt(_fan_in(weight))
        draw = torch.empty(bias.shape, dtype=torch.float32, device="cpu")
        bias.copy_(draw.uniform_(-bound, bound, generator=generator))


def _he(weight: Tensor, bias: Tensor | None, first: bool, generator: torch.Generator) -> None:
    # Normal draws in double precision: their last bits, which may depend on the processor,
    # disappear in the rounding to single precision.
    draw = torch.empty(weight.shape, dtype=torch.float64, device="cpu")
    weight.copy_(draw.normal_(generator=generator) * math.sqrt(2 / _fan_in(weight)))
    if bias is not None:
        bias.zero_()


def _truncated_gaussian(deviation: float) -> _Rule:
    def rule(weight: Tensor, bias: Tensor | None, first: bool, generator: torch.Generator) -> None:
        # By inversion: erf(x/sqrt 2) of a standard normal x cut off at +-2 is uniform.
        draw = torch.empty(weight.shape, dtype=torch.float64, device="cpu")
        edge = math.erf(math.sqrt(2))
        draw.uniform_(-edge, edge, generator=generator).erfinv_()
        weight.copy_(draw * (math.sqrt(2) * deviation))
        if bias is not None:
            bias.fill_(0.1 if first else 0.0)

    return rule
