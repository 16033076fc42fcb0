"""The network a stored certificate is about, without ever running code that the file names."""

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from curvbound.certificates.preparation import prepare
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian

__all__ = ["network_of", "rebuild"]


def rebuild(specification: Mapping[str, Any]) -> nn.Module:
    """A network of ``curvbound.networks`` from the arguments in a file, which may be nonsense."""
    from curvbound.networks import build

    try:
        return build(**specification)
    except (TypeError, ValueError, RuntimeError, MemoryError, OverflowError) as error:
        raise CurvboundError(
            "The certificate describes its network by arguments that no network of "
            f"curvbound.networks has: {error}."
        ) from error


def network_of(
    specification: Mapping[str, Any] | None,
    model: nn.Module | None,
    posterior: Gaussian | None,
    state: Mapping[str, Tensor] | None,
) -> nn.Module | None:
    """The network of a certificate in evaluation mode, or None if its code is not known.

    Args:
        specification: Arguments of ``networks.build``, if it was built so.
        model: The network from elsewhere; any weights. It goes before the specification.
        posterior: The certified distribution, which must be one over its parameters.
        state: Weights of the network of a hold-out certificate.
    """
    if model is None and specification is not None:
        model = rebuild(specification)
    if model is None:
        return None
    if posterior is None:
        return _with_state(model, state) if state is not None else None
    prepared = prepare(model, model, "the network")
    expected = {name: tensor.shape for name, tensor in posterior.mean.items()}
    if {name: tensor.shape for name, tensor in prepared.trained.items()} != expected:
        raise CurvboundError(
            "The network has other trainable parameters than the certificate: give the "
            "architecture the certificate was issued for."
        )
    return prepared.model


def _with_state(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    copied = copy.deepcopy(model).eval()
    try:
        copied.load_state_dict(dict(state))
    except RuntimeError as error:
        raise CurvboundError(
            "The network has other weights than the certificate: give the architecture the "
            "certificate was issued for."
        ) from error
    return copied
