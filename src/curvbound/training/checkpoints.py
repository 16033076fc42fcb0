"""Files of a training run, each written whole or not at all.

A run's folder holds `init.safetensors` and `final.safetensors` (the weights),
`epoch-NNNN.safetensors` (the trajectory, where asked for), `training.json` (how it was trained;
there once the run has finished) and, while it has not, `state.pt`, from which it is resumed.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from curvbound.errors import CurvboundError

__all__ = ["RunFolder", "differences", "read_weights", "write_weights"]


@dataclass(frozen=True)
class RunFolder:
    """The folder of one training run."""

    path: Path

    @property
    def init(self) -> Path:
        """Weights before training."""
        return self.path / "init.safetensors"

    @property
    def final(self) -> Path:
        """Weights after training."""
        return self.path / "final.safetensors"

    @property
    def record(self) -> Path:
        """How the weights came about; exists once the run has finished."""
        return self.path / "training.json"

    @property
    def state(self) -> Path:
        """Everything needed to go on; exists while the run has not finished."""
        return self.path / "state.pt"

    def epoch(self, number: int) -> Path:
        """Weights after so many epochs."""
        return self.path / f"epoch-{number:04d}.safetensors"

    def prepare(self) -> None:
        """Make the folder, and clear away what an earlier kill left of a file in writing."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for leftover in self.path.glob(".*.part"):
                leftover.unlink(missing_ok=True)
        except OSError as error:
            raise CurvboundError(
                f"The folder {self.path} cannot be written ({error.strerror}): choose another out."
            ) from None

    def refuse_if_used(self) -> None:
        """Never overwrite an earlier run."""
        if self.record.exists():
            raise CurvboundError(
                f"{self.path} already holds a finished training run: choose another folder, or "
                "resume to get its result."
            )
        if self.state.exists() or self.init.exists():
            raise CurvboundError(
                f"{self.path} holds an unfinished training run: resume it, or choose another "
                "folder."
            )

    def load_state(self) -> dict[str, Any]:
        """The state of an unfinished run; only tensors and plain values are ever unpickled."""
        try:
            state: dict[str, Any] = torch.load(self.state, map_location="cpu", weights_only=True)
        except Exception as error:
            raise CurvboundError(
                f"{self.state} cannot be read ({_first_line(error)}): delete it to start anew."
            ) from None
        return state

    def save_state(self, state: Mapping[str, Any]) -> None:
        """Replace the state, safely against a kill at any moment."""
        _write_whole(self.state, lambda part: torch.save(dict(state), part))

    def load_record(self) -> dict[str, Any]:
        """The record of a finished run."""
        try:
            record: dict[str, Any] = json.loads(self.record.read_text())
        except (OSError, ValueError) as error:
            raise CurvboundError(f"{self.record} cannot be read ({_first_line(error)}).") from None
        return record

    def finish(self, weights: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Write the final weights, then the record that declares the run finished."""
        write_weights(self.final, weights)
        text = json.dumps(record, indent=2) + "\n"
        _write_whole(self.record, lambda part: Path(part).write_text(text))
        self.state.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove every file of an unfinished run, and the folder if nothing else is in it."""
        for path in [self.init, self.state, *self.path.glob("epoch-[0-9]*.safetensors")]:
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write weights as safetensors, whole or not at all; tied weights are written twice."""
    from safetensors.torch import save

    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    _write_whole(path, lambda part: Path(part).write_bytes(save(copies)))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights from safetensors, or from a torch file that holds nothing but tensors."""
    from safetensors.torch import load_file

    if not path.is_file():
        raise CurvboundError(f"There is no weights file {path}: check the path.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CurvboundError(
            f"{path} holds no weights that can be read safely ({_first_line(error)}): save the "
            "network's state_dict() as safetensors or with torch.save."
        ) from None
    if not isinstance(loaded, Mapping) or not all(isinstance(v, Tensor) for v in loaded.values()):
        raise CurvboundError(
            f"{path} is not a state_dict: save the network's state_dict() alone, without "
            "optimiser or epoch."
        )
    return dict(loaded)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """One phrase for each setting in which two runs differ."""
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{at}{name}.")
        elif old != new:
            yield f"{at}{name} was {_short(old)} and is now {_short(new)}"


def _write_whole(path: Path, write: Callable[[str], Any]) -> None:
    """Write beside the target, force to disk, then move into place in one step."""
    part = path.with_name(f".{path.name}.part")
    try:
        write(str(part))
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise CurvboundError(f"{path} cannot be written ({error.strerror or error}).") from None
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself must survive a power cut too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
