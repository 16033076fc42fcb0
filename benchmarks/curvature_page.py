"""docs/benchmarks.md and its pictures from the results of the curvature benchmark."""

from pathlib import Path
from typing import Any

from curvature_cases import NETWORKS, ROWS

DOCS = Path(__file__).parents[1] / "docs"
OURS = "curvbound"
LIBRARIES = {
    "curvlinops": "curvlinops-for-pytorch",
    "hessian-eigenthings": "hessian-eigenthings",
    "BackPACK": "backpack-for-pytorch",
    "nngeometry": "nngeometry",
    "laplace (asdl)": "laplace-torch",
    "laplace (curvlinops)": "laplace-torch",
}
# More than this beside the leanest other library counts as a miss, if it is also more than 16 MiB.
LEAN, NEGLIGIBLE_MIB = 1.25, 16
# Results that differ by more than this from double precision are named.
AGREEMENT = 1e-2
# Why a row misses what it aims at, by (row, kind of miss).
REASONS = {
    ("hvp", "memory"): "the graph of the backward pass is kept for further products",
    ("hvp10", "memory"): "the products share one graph of the backward pass, which is kept",
    ("ggn10", "memory"): "the products share one graph of the backward pass, which is kept",
    ("probes", "memory"): "the probes share one graph, and a block of them is drawn at once",
    ("top", "memory"): "the whole Lanczos basis is kept for reorthogonalisation",
    ("top_fc2", "memory"): "the products share one graph of the backward pass, which is kept",
    ("kronecker", "memory"): "the backward passes of all classes run together, which is faster",
    ("gram", "time"): "a gradient of 100 inputs takes 2 ms here, so that fixed costs show: "
    "choosing examples, watching layers, sums in double precision",
    ("top", "time"): "orthogonalisation against the basis costs about as much as the products",
    ("top_fc2", "time"): "one product is a fifth of a gradient, and orthogonalisation shows",
}

HEAD = """# Benchmarks

## Curvature beside other libraries

What a calculation costs, in plain gradients: the time of the call divided by the time of one
gradient of the same loss on the same data in one batch. Below one means cheaper than a gradient.

![Cost of every row, curvbound and the other libraries](images/curvature-cost.svg)

How it is measured:

- {networks}.
  Inputs are ten random patterns in noise, the networks had 8 to 40 steps of SGD and are in
  evaluation mode.
- One thread, processor time, so that other work on the machine does not count. Every measurement
  stands between two gradients; the median over {rounds} rounds is printed.
- All libraries run in the same process, in turns. Libraries that take batches got convolutional
  networks once in one batch and once in parts of {chunk}, and the faster counts; curvbound chooses
  by itself.
- What is done once per network is not counted: `Landscape(...)` for curvbound, `extend(...)`,
  loaders, and checks for determinism for the others. What is done once per matrix is.
- Every result is compared with double precision; it agrees to {agreement:.0e} in norm or better
  unless the table says otherwise (the Kronecker factors up to each library's scaling).
- In brackets: MiB that the call adds at its peak to a fresh process.

Versions: {versions}.
The machine has two cores and was shared with other work (load average {load}); ratios vary by
about a tenth from run to run.
"""

TAIL = """
## How cost grows

![Cost against the number of examples and of products](images/curvature-growth.svg)

Time is linear in the number of examples and in the number of products; the first product pays for
what all of them share. Memory (dotted) does not depend on the number of examples where one pass
over the data is enough. Products keep the graphs they share, up to 2 GiB; beyond that they stream.

{large}
## Measure it yourself

```sh
benchmarks/make_peers.sh
benchmarks/.peers/bin/python benchmarks/curvature.py
```

All numbers are in [curvature.json](../benchmarks/results/curvature.json).
"""


def write_page(found: dict[str, Any]) -> None:
    from curvature_pictures import draw_cost, draw_growth

    table = found["table"]
    shown = [library for library in LIBRARIES if any(_has(table, library))]
    networks = "; ".join(
        f"{network.title} on {found['examples'][name]} inputs"
        for name, network in NETWORKS.items()
        if name in table
    )
    packages = found["versions"]
    named = ", ".join(f"{p} {packages[p]}" for p in ["torch", *dict.fromkeys(LIBRARIES.values())])
    parts = [
        HEAD.format(
            networks=networks,
            rounds=_rounds(table),
            chunk=NETWORKS["lenet"].chunk,
            agreement=AGREEMENT,
            versions=named,
            load=found["load"]["table"],
        )
    ]
    parts += [_table(name, table[name], shown) for name in NETWORKS if name in table]
    parts.append(_misses(table))
    parts.append(TAIL.format(large=_large(found)))
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    draw_cost(table, images / "curvature-cost.svg")
    if "growth" in found:
        draw_growth(found["growth"], images / "curvature-growth.svg")
    (DOCS / "benchmarks.md").write_text("\n".join(parts))


def _rounds(table: dict[str, Any]) -> str:
    counts = [
        entry["rounds"]
        for rows in table.values()
        for measured in rows.values()
        for entry in measured["entries"].values()
        if "rounds" in entry
    ]
    return f"{min(counts)} to {max(counts)}"


def _has(table: dict[str, Any], library: str) -> list[bool]:
    return [library in m["entries"] for rows in table.values() for m in rows.values()]


def _table(name: str, rows: dict[str, Any], shown: list[str]) -> str:
    lines = [
        f"### {NETWORKS[name].title}",
        "",
        f"| | curvbound | aim | {' | '.join(shown)} | lead |",
        f"|---|---|---|{'---|' * (len(shown) + 1)}",
    ]
    for key, measured in rows.items():
        entries = measured["entries"]
        aim = ROWS[key].targets.get(name)
        others = [_cell(entries.get(library)) for library in shown]
        best = _best(entries, "ratio")
        lead = "" if best is None else f"{best / entries[OURS]['ratio']:.1f}x"
        aimed = "" if aim is None else f"{aim:g}"
        cells = [ROWS[key].title, f"**{_cell(entries[OURS])}**", aimed, *others, lead]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "-"
    if "failure" in entry:
        return "NaN" if "NaN" in entry["failure"] else "fails"
    text = f"{entry['ratio']:.3g}"
    if "memory_mib" in entry:
        text += f" ({max(0, entry['memory_mib']):.0f})"
    if (entry["error"] or 0) > AGREEMENT:
        text += f", off by {entry['error']:.0%}"
    return text


def _best(entries: dict[str, Any], what: str) -> float | None:
    """The best of the libraries whose answer is right."""
    values = [
        entry[what]
        for library, entry in entries.items()
        if library != OURS and what in entry and (entry["error"] or 0) <= AGREEMENT
    ]
    return min(values) if values else None


def _misses(table: dict[str, Any]) -> str:
    lines = []
    for name, rows in table.items():
        for key, measured in rows.items():
            lines += [
                f"- {NETWORKS[name].title}, {ROWS[key].title}: {text}"
                for text in _row_misses(name, key, measured["entries"])
            ]
    body = "\n".join(lines) or "None in this run."
    failures = "\n".join(sorted(set(_failures(table))))
    text = f"### Where curvbound misses what it aims at\n\n{body}\n"
    if failures:
        text += f"\n### Where other libraries fail\n\n{failures}\n"
    return text


def _row_misses(name: str, key: str, entries: dict[str, Any]) -> list[str]:
    ours, aim = entries[OURS], ROWS[key].targets.get(name)
    fastest, leanest = _best(entries, "ratio"), _best(entries, "memory_mib")
    found = []
    slow = REASONS.get((key, "time"))
    if aim is not None and ours["ratio"] > aim:
        found.append(_because(f"{ours['ratio']:.2f} instead of {aim:g}", slow))
    if fastest is not None and ours["ratio"] > fastest:
        found.append(_because(f"{ours['ratio']:.3g} where another needs {fastest:.3g}", slow))
    memory = ours.get("memory_mib", 0)
    if leanest is not None and memory > max(LEAN * leanest, leanest + NEGLIGIBLE_MIB):
        text = f"{memory:.0f} MiB where the leanest takes {leanest:.0f}"
        found.append(_because(text, REASONS.get((key, "memory"))))
    return found


def _because(text: str, reason: str | None) -> str:
    return f"{text}: {reason}." if reason else f"{text}."


def _failures(table: dict[str, Any]) -> list[str]:
    return [
        f"- {NETWORKS[name].title}, {ROWS[key].title}, {library}: `{entry['failure']}`"
        for name, rows in table.items()
        for key, measured in rows.items()
        for library, entry in measured["entries"].items()
        if "failure" in entry
    ]


def _large(found: dict[str, Any]) -> str:
    lines = ["## Large problems", ""]
    if "vgg" in found:
        lines.append(f"- Kronecker factors of {_problem(found['vgg'])}; aim: below 3 GiB.")
    if "wide" in found:
        lines.append(
            f"- One Hessian-vector product of {_problem(found['wide'])}; aim: below 8 GiB."
        )
    if "layer" in found:
        r = found["layer"]
        lines.append(
            f"- Top-50 eigenpairs of layer fc1 of F-200^2 on {r['examples']:,} MNIST images: "
            f"{r['products']} products, largest residual {r['residual']:.1e} of the largest "
            "eigenvalue; aim: at most 120 products and 1e-3."
        )
    return "\n".join([*lines, ""]) if len(lines) > 2 else ""


def _problem(r: dict[str, Any]) -> str:
    return (
        f"{r['network']} ({r['parameters'] / 1e6:.1f} million parameters) on {r['images']:,} "
        f"images: {r['peak_gib']:.2f} GiB resident at the peak, {r['processor_seconds']:.0f} s of "
        "processor time"
    )
