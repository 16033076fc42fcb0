"""How cost and memory of curvature grow, and a few large problems."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from curvature_cases import NETWORKS, Setting, make_setting
from curvature_measure import MIB, peak_memory, resident

import curvbound as cb

MLP = NETWORKS["mlp"]


def growth(quick: bool) -> dict[str, Any]:
    """Time in gradients of 1000 examples against the number of examples and of products."""
    sizes = (500, 1000, 2000) if quick else (500, 1000, 2000, 4000, 8000, 16000)
    counts = (1, 2, 5, 10) if quick else (1, 2, 5, 10, 20, 40)
    work: dict[str, Callable[[Setting], Any]] = {
        "Hessian-vector, ten products": lambda s: _multiply(s, 10),
        "Kronecker factors": lambda s: cb.kronecker(s.land),
        "Gauss-Newton diagonal": lambda s: cb.diagonal(s.land),
    }
    small = make_setting(MLP, 1000)
    examples: dict[str, Any] = {title: [] for title in work}
    memory: dict[str, Any] = {title: [] for title in work}
    for size in sizes:
        # Streamed in chunks of 1000, so that memory is what does not depend on N.
        s = make_setting(MLP, size)
        s.land = cb.Landscape(s.model, (s.inputs, s.targets), batch_size=1000)
        for title, run in work.items():
            examples[title].append(_ratio(small, lambda run=run, s=s: run(s)))
            memory[title].append(peak_memory(lambda run=run, s=s: run(s)))
    products = [_ratio(small, lambda count=count: _multiply(small, count)) for count in counts]
    return {
        "sizes": sizes,
        "examples": examples,
        "memory_mib": memory,
        "counts": counts,
        "products": products,
    }


def _multiply(s: Setting, count: int) -> None:
    operator = cb.hessian(s.land)
    for index in range(count):
        operator @ s.vectors[index % len(s.vectors)]


def _ratio(small: Setting, run: Callable[[], Any]) -> float:
    run()
    ratios = []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(5):
            small.gradient()
        between = time.process_time()
        run()
        ratios.append(5 * (time.process_time() - between) / (between - begun))
    return statistics.median(ratios)


def _images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 3, 32, 32, generator=generator)
    return inputs, torch.randint(10, (count,), generator=generator)


def _large(name: str, count: int, work: Callable[[cb.Landscape], Any]) -> dict[str, Any]:
    model = cb.networks.build(name, (3, 32, 32), 10).eval()
    land = cb.Landscape(model, _images(count))
    before, begun = resident("VmRSS"), time.process_time()
    work(land)
    return {
        "network": name,
        "images": count,
        "parameters": land.size,
        "batch": land.batch_size,
        "peak_gib": resident("VmHWM") / 2**30,
        "extra_mib": (resident("VmHWM") - before) / MIB,
        "processor_seconds": time.process_time() - begun,
    }


def wide(quick: bool) -> dict[str, Any]:
    """One Hessian-vector product of WRN-28-10, 36.5 million weights; wanted: below 8 GiB."""
    return _large(
        "WRN-28-2" if quick else "WRN-28-10",
        16 if quick else 64,
        lambda land: cb.hessian(land) @ torch.ones(land.size),
    )


def vgg(quick: bool) -> dict[str, Any]:
    """Kronecker factors of VGG11 on 10,000 images; wanted: below 3 GiB. Both threads, minutes."""
    torch.set_num_threads(2)
    return _large("VGG11", 200 if quick else 10_000, cb.kronecker)


def layer(quick: bool) -> dict[str, Any]:
    """Top-50 eigenpairs of fc1 of F-200^2 on MNIST; wanted: at most 120 products, residual 1e-3."""
    examples = cb.datasets.load("mnist").train
    model = cb.networks.build("F-200^2", examples.shape, examples.classes)
    inputs, targets = examples
    if quick:
        inputs, targets = inputs[:2000], targets[:2000]
    cb.train(model, (inputs, targets), "001", epochs=5, progress=False)
    land = cb.Landscape(model.eval(), (inputs, targets))
    begun = time.process_time()
    found = cb.top_eigenpairs(cb.hessian(land, layer="fc1"), 50, tolerance=1e-3)
    largest = float(found.values[0])
    return {
        "examples": len(targets),
        "products": found.matvecs,
        "residual": float(found.residuals.max()) / largest,
        "largest": largest,
        "fiftieth": float(found.values[-1]),
        "converged": found.converged,
        "processor_seconds": time.process_time() - begun,
    }


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "growth": growth,
    "wide": wide,
    "layer": layer,
    "vgg": vgg,
}
