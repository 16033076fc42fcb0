"""How the curvature benchmark measures time, agreement and memory.

Time is processor time of one thread: on a shared machine it does not count the time in which others
run. Every measurement stands between two plain gradients and is divided by their mean; the median
over rounds counts. Memory is the peak of the resident set of a fresh process over what it held
before the call.
"""

import ctypes
import gc
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from curvature_cases import NETWORKS, ROWS, Row, Setting, disagreement, make_setting

OURS = "curvbound"
# A measurement repeats what it measures until it has taken about this long.
SHORTEST = 0.08
# Rounds of one row end after this many seconds, but not before so many rounds.
ENOUGH, FEWEST_ROUNDS = 30.0, 2
MIB = 2**20


class Contender:
    """One library on one row: what to run, and whether it works."""

    def __init__(self, row: Row, key: str, library: str, s: Setting) -> None:
        self.row, self.library, self.s = row, library, s
        self.failure: str | None = None
        self.error: float | None = None
        self.batch = len(s.targets)
        self.repeats = 1
        self.ratios: list[float] = []
        if library == OURS:
            self.per, self.read, self.whole = row.per, row.read, True
            self.run: Callable[[], Any] = lambda: row.run(s)
            return
        from curvature_peers import PEERS

        peer = PEERS[key][library]
        self.per, self.read, self.whole = peer.per, peer.read, peer.whole
        self._batches = s.batches(self.batch)
        self.run = lambda: peer.run(s, self._batches)

    def split(self, size: int) -> None:
        """Hand over the data in parts of ``size``."""
        self.batch = size
        self._batches = self.s.batches(size)

    def check(self, reference: torch.Tensor) -> None:
        """Run it for the first time, compare with the reference, choose the faster batches."""
        try:
            begun = time.process_time()
            result = self.run()
            seconds = {self.batch: time.process_time() - begun}
            found = self.read(result, self.s)
            # Libraries that share nothing between products multiply the first vectors only.
            expected = reference[: len(found)] if self.per != self.row.per else reference
            self.error = disagreement(found, expected)
            if math.isnan(self.error):
                self.failure = "gives NaN"
                return
            if seconds[self.batch] < SHORTEST:  # the first time is not the usual time
                seconds[self.batch] = self._seconds(1)
            chunk = self.s.network.chunk
            if not self.whole and chunk < self.batch:
                whole = self.batch
                self.split(chunk)
                seconds[chunk] = self._seconds(1)
                self.split(min((whole, chunk), key=seconds.__getitem__))
            self.repeats = max(1, int(SHORTEST / seconds[self.batch]))
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            self.failure = f"{type(error).__name__}: {first}"[:160]

    def _seconds(self, repeats: int) -> float:
        gc.collect()
        begun = time.process_time()
        for _ in range(repeats):
            self.run()
        return (time.process_time() - begun) / repeats

    def time(self) -> float:
        """Seconds per product, or per call."""
        return self._seconds(self.repeats) / self.per

    def summary(self) -> dict[str, Any]:
        """What is kept of it."""
        if self.failure:
            return {"failure": self.failure}
        return {
            "ratio": statistics.median(self.ratios),
            "lowest": min(self.ratios),
            "highest": max(self.ratios),
            "rounds": len(self.ratios),
            "batch": self.s.land.batch_size if self.library == OURS else self.batch,
            "error": None if self.row.estimate else self.error,
        }


def contenders(key: str, s: Setting, peers: bool) -> list[Contender]:
    libraries = [OURS]
    if peers:
        from curvature_peers import PEERS

        libraries += PEERS.get(key, {})
    return [Contender(ROWS[key], key, library, s) for library in libraries]


def time_row(key: str, s: Setting, double: Setting, rounds: int, peers: bool) -> dict[str, Any]:
    """All libraries on one row and network, in turns."""
    row = ROWS[key]
    reference = row.read(row.run(double), double)
    entries = contenders(key, s, peers)
    for entry in entries:
        entry.check(reference)
    running = [entry for entry in entries if not entry.failure]
    repeats = max(1, int(SHORTEST / _gradient(s, row, 1)))
    gradients = []
    begun = time.process_time()
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and time.process_time() - begun > ENOUGH:
            break
        before = _gradient(s, row, repeats)
        for entry in running:
            seconds = entry.time()
            after = _gradient(s, row, repeats)
            entry.ratios.append(2 * seconds / (before + after))
            gradients.append(after)
            before = after
    return {
        "gradient_ms": 1000 * statistics.median(gradients),
        "entries": {entry.library: entry.summary() for entry in entries},
    }


def _gradient(s: Setting, row: Row, repeats: int) -> float:
    gc.collect()
    begun = time.process_time()
    for _ in range(repeats):
        s.gradient(row.examples)
    return (time.process_time() - begun) / repeats


def peak_memory(work: Callable[[], Any], warm_up: Callable[[], Any] | None = None) -> float:
    """MiB that ``work`` adds to the resident set at its peak, in a forked process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "nan"
        try:
            if warm_up is not None:  # whatever is loaded or allocated once for all
                warm_up()
            gc.collect()
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
            work()
            answer = str((resident("VmHWM") - before) / MIB)
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return float(answer or "nan")


def resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def measure_memory(table: dict[str, Any], examples: dict[str, int]) -> None:
    """Add the peak memory of every contender that works to the table."""
    from curvature_peers import import_all

    import_all()
    for name, rows in table.items():
        network = NETWORKS[name]
        s = make_setting(network, examples[name])
        for key, measured in rows.items():
            row = ROWS[key]
            tiny = make_setting(network._replace(steps=0), max(8, row.examples or 0))
            tiny.model = s.model
            for entry, small in zip(
                contenders(key, s, True), contenders(key, tiny, True), strict=True
            ):
                result = measured["entries"].get(entry.library, {})
                if "ratio" not in result:
                    continue
                if entry.library != OURS:
                    entry.split(result["batch"])
                result["memory_mib"] = peak_memory(entry.run, small.run)
            shown = {
                library: round(result["memory_mib"])
                for library, result in measured["entries"].items()
                if "memory_mib" in result
            }
            print(f"{name} {key} MiB: {shown}", flush=True)
