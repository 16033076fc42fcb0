"""Certificates on disk: JSON and safetensors, both written whole or not at all."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curvbound.certificates.record import Record
from curvbound.errors import CurvboundError
from curvbound.gaussians import Gaussian, from_tensors

__all__ = ["Stored", "read_certificate", "state_hash", "tensors_path", "write_certificate"]


@dataclass(frozen=True)
class Stored:
    """What was read from disk.

    Attributes:
        record: The JSON file.
        prior: The prior; None for a hold-out certificate.
        posterior: The posterior; None for a hold-out certificate.
        network: State dict of the network a hold-out certificate is about.
        intact: Whether the tensors have the hash that the record says.
    """

    record: Record
    prior: Gaussian | None = None
    posterior: Gaussian | None = None
    network: Mapping[str, Tensor] | None = None
    intact: bool = True


def tensors_path(path: Path) -> Path:
    """Where the tensors of the certificate ``path`` lie."""
    return path.with_suffix(".safetensors")


def state_hash(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of a state dict: names, precisions, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f" {name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_certificate(
    path: Path,
    record: Record,
    prior: Gaussian | None,
    posterior: Gaussian | None,
    network: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write the tensors first and then the record that carries their hash."""
    from safetensors.torch import save

    if path.suffix != ".json":
        raise CurvboundError(f"A certificate is a .json file; '{path.name}' is not.")
    path.parent.mkdir(parents=True, exist_ok=True)
    named: dict[str, Tensor] = {}
    kinds = {}
    for role, distribution in (("prior", prior), ("posterior", posterior)):
        if distribution is not None:
            tensors, kinds[role] = distribution.to_tensors()
            named |= {f"{role}/{name}": tensor for name, tensor in tensors.items()}
    named |= {f"network/{name}": tensor for name, tensor in (network or {}).items()}
    if named:
        # copies, because tied weights share their memory, which the format refuses
        content = save({name: t.detach().cpu().contiguous().clone() for name, t in named.items()})
        record = record.model_copy(
            update={"tensors": hashlib.sha256(content).hexdigest(), "distributions": kinds}
        )
        _replace(tensors_path(path), content)
    _replace(path, record.model_dump_json(indent=2).encode() + b"\n")
    return path


def read_certificate(path: Path) -> Stored:
    """Read a certificate; what is malformed is refused, what has another hash is reported."""
    record = _read_record(path)
    if record.tensors is None:
        if record.prior is not None:
            raise CurvboundError(f"'{path}' names a prior but no tensors: it is not complete.")
        return Stored(record)
    from safetensors import SafetensorError
    from safetensors.torch import load

    beside = tensors_path(path)
    try:
        content = beside.read_bytes()
        tensors = load(content)
    except OSError as error:
        raise CurvboundError(f"The tensors '{beside}' cannot be read: {error.strerror}.") from error
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CurvboundError(f"'{beside}' is not a safetensors file: {error}.") from error
    intact = hashlib.sha256(content).hexdigest() == record.tensors
    if record.prior is None:
        return Stored(record, network=_part("network", tensors), intact=intact)
    prior, posterior = (_gaussian(role, tensors, record) for role in ("prior", "posterior"))
    return Stored(record, prior, posterior, intact=intact)


def _read_record(path: Path) -> Record:
    from pydantic import ValidationError

    try:
        return Record.model_validate_json(path.read_bytes())
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


def _part(role: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(f"{role}/"): t for n, t in tensors.items() if n.startswith(f"{role}/")}


def _gaussian(role: str, tensors: Mapping[str, Tensor], record: Record) -> Gaussian:
    found = from_tensors(_part(role, tensors), record.distributions.get(role, {}))
    if not isinstance(found, Gaussian):
        raise CurvboundError(f"The stored {role} is not a Gaussian: it cannot be checked.")
    return found


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
