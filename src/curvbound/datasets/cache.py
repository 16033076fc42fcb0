"""The cache folder: raw data files, checked by hash, written whole or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvbound.errors import CurvboundError

__all__ = ["Source", "cache_folder", "obtain"]

logger = logging.getLogger("curvbound.datasets")

Bytes = NDArray[np.uint8]
TEMPORARY = "unfinished-"


@dataclass(frozen=True)
class Source:
    """One way to obtain the files of a data set.

    Attributes:
        label: What to call it in messages.
        fetch: Writes the raw files into the folder it is given.
    """

    label: str
    fetch: Callable[[Path], None]


def cache_folder() -> Path:
    """``$CURVBOUND_CACHE`` if set, else the platform's folder for caches."""
    if chosen := os.environ.get("CURVBOUND_CACHE"):
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("curvbound"))


def obtain(
    name: str, md5: Mapping[str, str], sources: tuple[Source, ...]
) -> tuple[dict[str, Bytes], str]:
    """The content of the files of a data set, and which source gave them.

    The cache folder is tried first, then the sources in order; what they give is checked and
    then put in the cache. Several processes may do this at once.

    Args:
        name: Folder inside the cache folder.
        md5: File names and the MD5 of their content.
        sources: What to try when the cache does not have them.

    Raises:
        CurvboundError: If no source works; the message names all that were tried.
    """
    from filelock import FileLock

    folder = cache_folder() / name
    try:
        files, _ = _read_checked(folder, md5)
        if files:
            return files, "cache"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            # Another process may have been faster, or may have died half-way.
            files, cached = _read_checked(folder, md5)
            if files:
                return files, "cache"
            for leftover in folder.glob(f"{TEMPORARY}*"):
                shutil.rmtree(leftover)
            return _fetch(name, folder, md5, sources, cached)
    except OSError as error:
        raise CurvboundError(
            f"cannot use the cache folder {folder} ({error}): set CURVBOUND_CACHE to a folder "
            "that can be written to"
        ) from error


def _fetch(
    name: str, folder: Path, md5: Mapping[str, str], sources: tuple[Source, ...], cached: str
) -> tuple[dict[str, Bytes], str]:
    tried = [f"cache folder: {cached}"]
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=folder) as unfinished:
            try:
                source.fetch(Path(unfinished))
            except CurvboundError as error:
                problem = str(error)
            else:
                files, problem = _read_checked(Path(unfinished), md5)
                if files:
                    for file in md5:
                        (Path(unfinished) / file).replace(folder / file)
                    logger.info("%s: fetched from %s into %s", name, source.label, folder)
                    return files, source.label
        logger.info("%s: not from %s: %s", name, source.label, problem)
        tried.append(f"{source.label}: {problem}")
    raise CurvboundError(
        f"could not obtain {name}; tried {'; '.join(tried)}; you can put the files "
        f"{', '.join(md5)} into {folder} yourself"
    )


def _read_checked(folder: Path, md5: Mapping[str, str]) -> tuple[dict[str, Bytes], str]:
    """All files, or none and the reason."""
    files: dict[str, Bytes] = {}
    for file, expected in md5.items():
        path = folder / file
        if not path.is_file():
            return {}, f"no file {path}" if files else "no files"
        content = np.fromfile(path, dtype=np.uint8)
        found = hashlib.md5(content.data, usedforsecurity=False).hexdigest()
        if found != expected:
            problem = f"{path} is damaged (MD5 {found}, expected {expected})"
            logger.warning("%s", problem)
            return {}, problem
        files[file] = content
    return files, ""
