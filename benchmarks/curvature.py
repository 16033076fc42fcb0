"""Curvature side by side: curvbound and the other libraries, ratio to a plain gradient.

    benchmarks/make_peers.sh                                      # once
    benchmarks/.peers/bin/python benchmarks/curvature.py          # everything but `vgg`
    ... curvature.py table | memory | growth | wide | layer | vgg | page   # one part of it
    ... curvature.py --quick                                      # small, one round, not kept

Results go to benchmarks/results/curvature.json, page and pictures to docs/.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from curvature_cases import NETWORKS, ROWS, make_setting
from curvature_measure import measure_memory, time_row
from curvature_page import write_page
from curvature_scale import PARTS

RESULTS = Path(__file__).parent / "results" / "curvature.json"
QUICK_RESULTS = Path(tempfile.gettempdir()) / "curvature-quick.json"
ROUNDS = {"mlp": 7, "lenet": 5, "resnet": 5}
QUICK_EXAMPLES = {"mlp": 500, "lenet": 100, "resnet": 20}
PACKAGES = (
    "torch",
    "curvlinops-for-pytorch",
    "hessian-eigenthings",
    "backpack-for-pytorch",
    "nngeometry",
    "laplace-torch",
)


def measure_table(
    names: list[str], examples: dict[str, int], rounds: dict[str, int]
) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name in names:
        s = make_setting(NETWORKS[name], examples[name])
        double = s.double()
        table[name] = {}
        for key, row in ROWS.items():
            if name in row.networks and (row.examples or 0) <= examples[name]:
                table[name][key] = time_row(key, s, double, rounds[name], peers=True)
                _show(name, key, table[name][key])
    return table


def _show(name: str, key: str, measured: dict[str, Any]) -> None:
    parts = []
    for library, entry in measured["entries"].items():
        if "failure" in entry:
            parts.append(f"{library} {entry['failure']}")
        else:
            error = "" if entry["error"] is None else f" ({entry['error']:.0e})"
            parts.append(f"{library} {entry['ratio']:.2f}{error}")
    target = ROWS[key].targets.get(name)
    aim = "" if target is None else f" [at most {target}]"
    print(f"{name} {key}{aim}: {'; '.join(parts)}", flush=True)


def versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def in_fresh_process(part: str, arguments: list[str]) -> None:
    subprocess.run([sys.executable, __file__, part, *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part", nargs="?", default="all", choices=["all", "table", "memory", *PARTS, "page"]
    )
    parser.add_argument("--quick", action="store_true", help="small; results are not kept")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    choice = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    if choice.part == "all":
        for part in ("table", "memory", *(part for part in PARTS if part != "vgg"), "page"):
            in_fresh_process(part, sys.argv[1:])
        print(f"{time.perf_counter() - begun:.0f} s in all")
        return
    results = QUICK_RESULTS if choice.quick else RESULTS
    found = _read(results)
    if choice.part == "table":
        examples = {name: network.examples for name, network in NETWORKS.items()}
        rounds = ROUNDS
        if choice.quick:
            examples, rounds = QUICK_EXAMPLES, dict.fromkeys(NETWORKS, 1)
        table = measure_table(choice.networks, examples, rounds)
        new = {"versions": versions(), "examples": examples, "table": table}
    elif choice.part == "memory":
        table = {name: found["table"][name] for name in choice.networks}
        measure_memory(table, found["examples"])
        new = {"table": table}
    elif choice.part == "page":
        write_page(found)
        return
    else:
        new = {choice.part: PARTS[choice.part](choice.quick)}
        print(new)
    new["load"] = {choice.part: round(os.getloadavg()[2], 1)}
    _write(results, new)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, new: dict[str, Any]) -> None:
    """Add to what is there now: parts may be measured by several processes."""
    found = _read(path)
    for key in ("table", "load"):
        new[key] = found.get(key, {}) | new.get(key, {})
    path.write_text(json.dumps(found | new, indent=1) + "\n")


if __name__ == "__main__":
    main()
