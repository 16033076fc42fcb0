import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from curvbound.datasets import load
from curvbound.errors import CurvboundError

NAMES = [f"thing_{number}" for number in range(100)]
PIXELS = np.random.default_rng(0).integers(256, size=(4, 3072), dtype=np.uint8)
LABELS = [5, 99, 0, 42]


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Writes all text as byte strings, as the Python 2 that made the published files did."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_byte_string(self, text: str | bytes) -> None:
        content = text.encode() if isinstance(text, str) else text
        self.write(b"T" + len(content).to_bytes(4, "little") + content)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_byte_string


def dump(content: dict[str, object]) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def dump_by_python3(content: dict[str, object]) -> bytes:
    return pickle.dumps(content, protocol=2)


def write_python(folder: Path, dump: Callable[[dict[str, object]], bytes] = dump) -> None:
    for part in ("train", "test"):
        content = {"data": PIXELS, "fine_labels": LABELS, "coarse_labels": [0, 1, 2, 3]}
        (folder / part).write_bytes(dump(content))
    (folder / "meta").write_bytes(dump({"fine_label_names": NAMES}))


def write_python3(folder: Path) -> None:
    write_python(folder, dump_by_python3)


def write_binary(folder: Path) -> None:
    records = np.concatenate(
        [np.full((4, 1), 3, np.uint8), np.array(LABELS, np.uint8)[:, None], PIXELS], axis=1
    )
    for part in ("train", "test"):
        records.tofile(folder / f"{part}.bin")
    (folder / "fine_label_names.txt").write_text("\n".join(NAMES) + "\n")


@pytest.mark.parametrize("write", [write_python, write_python3, write_binary])
def test_published_formats(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    data = load(tmp_path)
    assert data.shape == (3, 32, 32)
    assert data.classes == 100
    assert data.class_names == tuple(NAMES)
    assert data.test is not None
    for part in (data.train, data.test):
        assert part.targets.tolist() == LABELS
        assert np.array_equal(np.round(part.inputs.flatten(1).numpy() * 255), PIXELS)


def test_code_in_a_pickle_is_refused(tmp_path: Path) -> None:
    write_python(tmp_path)
    target = tmp_path / "ran"
    (tmp_path / "train").write_bytes(f"cos\nsystem\n(S'touch {target}'\ntR.".encode())
    with pytest.raises(CurvboundError, match=r"os\.system is not allowed"):
        load(tmp_path)
    assert not target.exists()


def test_truncated_python_files(tmp_path: Path) -> None:
    write_python(tmp_path)
    whole = (tmp_path / "train").read_bytes()
    for end in (0, 1, 10, 200, len(whole) // 2, len(whole) - 1):
        (tmp_path / "train").write_bytes(whole[:end])
        with pytest.raises(CurvboundError, match="train is damaged"):
            load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        {"data": PIXELS},
        {"data": PIXELS[:3], "fine_labels": LABELS},
        {"data": PIXELS, "fine_labels": ["a", "b", "c", "d"]},
        {"data": [1, 2], "fine_labels": LABELS},
    ],
)
def test_python_files_with_other_content(tmp_path: Path, content: dict[str, object]) -> None:
    write_python(tmp_path)
    (tmp_path / "test").write_bytes(dump(content))
    with pytest.raises(CurvboundError, match="does not hold CIFAR-100's data"):
        load(tmp_path)


def test_binary_damage(tmp_path: Path) -> None:
    write_binary(tmp_path)
    whole = (tmp_path / "test.bin").read_bytes()
    (tmp_path / "test.bin").write_bytes(whole[:-1])
    with pytest.raises(CurvboundError, match="truncated"):
        load(tmp_path)
    (tmp_path / "test.bin").write_bytes(whole[:1] + b"\x64" + whole[2:])
    with pytest.raises(CurvboundError, match="label 100, out of range"):
        load(tmp_path)
    (tmp_path / "test.bin").unlink()
    with pytest.raises(CurvboundError, match=r"cannot read .*test\.bin"):
        load(tmp_path)


def test_missing_names(tmp_path: Path) -> None:
    write_binary(tmp_path)
    (tmp_path / "fine_label_names.txt").write_text("one\n")
    with pytest.raises(CurvboundError, match="names 1 fine classes instead of 100"):
        load(tmp_path)
