"""Certificates on disk: JSON and safetensors, both written whole or not at all."""

import hashlib
import os
from pathlib import Path

from torch import Tensor

from curvbound.certificates.record import Record
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian, from_tensors

__all__ = ["read_certificate", "tensors_path", "write_certificate"]


def tensors_path(path: Path) -> Path:
    """Where the tensors of the certificate ``path`` lie."""
    return path.with_suffix(".safetensors")


def write_certificate(
    path: Path, record: Record, prior: Gaussian | None, posterior: Gaussian | None
) -> Path:
    """Write the tensors first and then the record that carries their hash."""
    from safetensors.torch import save

    if path.suffix != ".json":
        raise CurvboundError(f"A certificate is a .json file; '{path.name}' is not.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if prior is not None and posterior is not None:
        roles = {"prior": prior, "posterior": posterior}
        content = save({k: v for role, it in roles.items() for k, v in _named(role, it).items()})
        record = record.model_copy(
            update={
                "tensors": hashlib.sha256(content).hexdigest(),
                "distributions": {role: it.to_tensors()[1] for role, it in roles.items()},
            }
        )
        _replace(tensors_path(path), content)
    _replace(path, record.model_dump_json(indent=2).encode() + b"\n")
    return path


def read_certificate(path: Path) -> tuple[Record, Gaussian | None, Gaussian | None]:
    """Read record, prior and posterior; anything malformed is refused."""
    from pydantic import ValidationError
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        record = Record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CurvboundError(
            f"The certificate '{path}' cannot be read: {error.strerror}."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise CurvboundError(
            f"'{path}' is not a certificate of this format: {where}: {first['msg']}."
        ) from error
    if record.prior is None:
        return record, None, None
    beside = tensors_path(path)
    try:
        content = beside.read_bytes()
        tensors = load(content)
    except OSError as error:
        raise CurvboundError(f"The tensors '{beside}' cannot be read: {error.strerror}.") from error
    except SafetensorError as error:
        raise CurvboundError(f"'{beside}' is not a safetensors file: {error}.") from error
    if hashlib.sha256(content).hexdigest() != record.tensors:
        raise CurvboundError(
            f"'{beside}' is not the file this certificate was issued with: its hash differs."
        )
    return record, _gaussian("prior", tensors, record), _gaussian("posterior", tensors, record)


def _named(role: str, distribution: Gaussian) -> dict[str, Tensor]:
    tensors, _ = distribution.to_tensors()
    return {f"{role}/{name}": tensor.cpu().contiguous() for name, tensor in tensors.items()}


def _gaussian(role: str, tensors: dict[str, Tensor], record: Record) -> Gaussian:
    own = {n.removeprefix(f"{role}/"): t for n, t in tensors.items() if n.startswith(f"{role}/")}
    found = from_tensors(own, record.distributions.get(role, {}))
    if not isinstance(found, Gaussian):
        raise CurvboundError(f"The stored {role} is not a Gaussian: it cannot be checked.")
    return found


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
