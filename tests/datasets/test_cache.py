import hashlib
import threading
import time
from pathlib import Path

import pytest

from curvbound.datasets.cache import Source, cache_folder, obtain
from curvbound.errors import CurvboundError

FILES = {"a.bin": b"alpha" * 1000, "b.bin": b"beta" * 1000}
MD5 = {name: hashlib.md5(content).hexdigest() for name, content in FILES.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CURVBOUND_CACHE", str(tmp_path))
    return tmp_path / "toy"


def write(target: Path) -> None:
    for name, content in FILES.items():
        (target / name).write_bytes(content)


def fail(target: Path) -> None:
    (target / "a.bin").write_bytes(b"half")
    raise CurvboundError("the line is dead")


def truncate(target: Path) -> None:
    write(target)
    (target / "b.bin").write_bytes(FILES["b.bin"][:-1])


GOOD, DEAD, SHORT = Source("good", write), Source("dead", fail), Source("short", truncate)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_first_from_the_source_then_from_the_cache(folder: Path) -> None:
    for expected in ("good", "cache"):
        files, source = obtain("toy", MD5, (GOOD,))
        assert source == expected
        assert {name: content.tobytes() for name, content in files.items()} == FILES
    assert visible(folder) == ["a.bin", "b.bin"]


def test_sources_are_tried_in_order(folder: Path) -> None:
    assert obtain("toy", MD5, (DEAD, SHORT, GOOD))[1] == "good"
    assert visible(folder) == ["a.bin", "b.bin"]


def test_one_error_names_everything_that_was_tried(folder: Path) -> None:
    with pytest.raises(CurvboundError) as caught:
        obtain("toy", MD5, (DEAD, SHORT))
    message = str(caught.value)
    for part in ("cache folder: no files", "dead: the line is dead", "short: ", "is damaged"):
        assert part in message
    assert f"put the files a.bin, b.bin into {folder}" in message
    assert visible(folder) == []


def test_a_damaged_cache_is_fetched_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    obtain("toy", MD5, (GOOD,))
    (folder / "a.bin").write_bytes(b"rotten")
    assert obtain("toy", MD5, (GOOD,))[1] == "good"
    assert "a.bin is damaged" in caplog.text
    assert (folder / "a.bin").read_bytes() == FILES["a.bin"]


def test_a_damaged_cache_is_named_when_nothing_else_works(folder: Path) -> None:
    obtain("toy", MD5, (GOOD,))
    (folder / "a.bin").write_bytes(b"rotten")
    with pytest.raises(CurvboundError, match=r"cache folder: .*a\.bin is damaged \(MD5"):
        obtain("toy", MD5, (DEAD,))


def test_interruption_leaves_nothing(folder: Path) -> None:
    def interrupt(target: Path) -> None:
        (target / "a.bin").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain("toy", MD5, (Source("slow", interrupt),))
    assert visible(folder) == []


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    (folder / "unfinished-xyz").mkdir(parents=True)
    (folder / "unfinished-xyz" / "a.bin").write_bytes(b"half")
    obtain("toy", MD5, (GOOD,))
    assert visible(folder) == ["a.bin", "b.bin"]


def test_several_at_once_fetch_only_once() -> None:
    fetched: list[Path] = []
    sources: list[str] = []

    def slow(target: Path) -> None:
        fetched.append(target)
        time.sleep(0.2)
        write(target)

    def job() -> None:
        sources.append(obtain("toy", MD5, (Source("slow", slow),))[1])

    threads = [threading.Thread(target=job) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1
    assert sorted(sources) == ["cache", "cache", "cache", "slow"]


def test_unusable_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CURVBOUND_CACHE", str(tmp_path / "file"))
    with pytest.raises(CurvboundError, match="set CURVBOUND_CACHE"):
        obtain("toy", MD5, (GOOD,))


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURVBOUND_CACHE")
    assert cache_folder().name == "curvbound"
