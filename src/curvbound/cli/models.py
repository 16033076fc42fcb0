"""Networks and weights named on the command line."""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from curvbound.errors import CurvboundError

__all__ = ["load_weights", "resolve_model"]


def resolve_model(
    spec: str, input_shape: Sequence[int], classes: int, *, init: str | None = None, seed: int = 0
) -> nn.Module:
    """The network that `NAME` or `package.module:factory` means.

    A factory is called as `factory(input_shape, classes)`, or as `factory()` if it takes no
    arguments, after torch's global generator was seeded; the generator is then put back.

    Args:
        spec: A name that `networks.build` knows, or where a factory is. Modules are also looked
            for in the current folder.
        input_shape: Shape of one input.
        classes: Number of classes.
        init: Name of an initialisation; None: the network's own.
        seed: Seed of the initial weights.
    """
    from curvbound import networks

    if ":" not in spec:
        return networks.build(spec, tuple(input_shape), classes, init=init or "torch", seed=seed)
    factory = _find_factory(spec)
    arguments = _factory_arguments(spec, factory, tuple(input_shape), classes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model = factory(*arguments)
        except Exception as error:
            raise CurvboundError(
                f"The factory {spec} failed: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(model, nn.Module):
        raise CurvboundError(
            f"The factory {spec} must give a torch.nn.Module, not {type(model).__name__}."
        )
    if init is not None:
        networks.initialise(model, init, seed)
    return model


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a safetensors file, or a torch file that holds nothing but tensors."""
    from curvbound.training.checkpoints import read_weights

    return read_weights(Path(path))


def _find_factory(spec: str) -> Callable[..., Any]:
    module_name, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, SyntaxError) as error:
        raise CurvboundError(
            f"The module of {spec} cannot be imported ({error}): run from the folder that holds "
            "it, or install it."
        ) from error
    finally:
        sys.path.remove(here)
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise CurvboundError(f"The module {module_name} has no function {attribute!r} to call.")
    found: Callable[..., Any] = factory
    return found


def _factory_arguments(
    spec: str, factory: Callable[..., Any], input_shape: tuple[int, ...], classes: int
) -> tuple[Any, ...]:
    signature = inspect.signature(factory)
    required = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not required:
        return ()
    try:
        signature.bind(input_shape, classes)
    except TypeError:
        raise CurvboundError(
            f"The factory {spec}{signature} must take (input_shape, classes) or nothing."
        ) from None
    return (input_shape, classes)
