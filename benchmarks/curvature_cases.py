"""What the curvature benchmark measures: networks, data, and curvbound's answer for every row.

No other library is needed here; theirs are in ``curvature_peers``.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import curvbound as cb

PRODUCTS = 10
PROBES = 10
EIGENVALUES = 10
TOLERANCE = 1e-3
GRAM_EXAMPLES = 100
# How strong the pattern of its class is in an input, beside noise of variance 1.
PATTERN = 0.1

Batches = list[tuple[Tensor, Tensor]]


class Network(NamedTuple):
    """One of the networks of the table.

    Attributes:
        title: Its name in the table.
        build: Its name for ``networks.build``.
        shape: Shape of one input.
        examples: Number of inputs.
        chunk: Size of the parts that other libraries are also offered the data in.
        steps: SGD steps before anything is measured.
    """

    title: str
    build: str
    shape: tuple[int, ...]
    examples: int
    chunk: int
    steps: int


NETWORKS = {
    "mlp": Network("MLP 784-200-200-10", "F-200^2", (784,), 2000, 2000, 40),
    "lenet": Network("LeNet5", "LeNet5", (3, 32, 32), 1000, 50, 40),
    "resnet": Network("ResNet-20", "ResNet-20", (3, 32, 32), 100, 50, 8),
}


@dataclass
class Setting:
    """A network after a short training on ten noisy random patterns, in evaluation mode."""

    network: Network
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    notes: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def land(self) -> cb.Landscape:
        """Checked once; every row starts from here."""
        return cb.Landscape(self.model, (self.inputs, self.targets))

    @cached_property
    def vectors(self) -> list[Tensor]:
        """What the matrices are multiplied with."""
        generator = torch.Generator().manual_seed(1)
        size = sum(p.numel() for p in self.model.parameters())
        drawn = [torch.randn(size, generator=generator) for _ in range(PRODUCTS)]
        return [vector.to(self.inputs.dtype) for vector in drawn]

    @cached_property
    def copies(self) -> dict[str, nn.Module]:
        """Networks of their own for libraries that leave hooks or results on the modules."""
        return {}

    def copy_for(self, library: str, prepare: Callable[[nn.Module], nn.Module]) -> nn.Module:
        """The library's own network, made on first use."""
        if library not in self.copies:
            self.copies[library] = prepare(copy.deepcopy(self.model))
        return self.copies[library]

    def batches(self, size: int) -> Batches:
        """The data in parts of ``size``."""
        return list(zip(self.inputs.split(size), self.targets.split(size), strict=True))

    def gradient(self, examples: int | None = None) -> Tensor:
        """The yardstick: one plain gradient of the mean loss in one batch."""
        inputs, targets = self.inputs[:examples], self.targets[:examples]
        loss = functional.cross_entropy(self.model(inputs), targets)
        parts = torch.autograd.grad(loss, list(self.model.parameters()))
        return torch.cat([part.reshape(-1) for part in parts])

    def double(self) -> "Setting":
        """The same in double precision, for reference answers."""
        model = copy.deepcopy(self.model).double()
        return Setting(self.network, model, self.inputs.double(), self.targets)


def make_setting(network: Network, examples: int | None = None, seed: int = 0) -> Setting:
    generator = torch.Generator().manual_seed(seed)
    count = examples or network.examples
    targets = torch.randint(10, (count,), generator=generator)
    patterns = torch.randn(10, *network.shape, generator=generator)
    noise = torch.randn(count, *network.shape, generator=generator)
    inputs = PATTERN * patterns[targets] + noise
    model = cb.networks.build(network.build, network.shape, 10, seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(network.steps):
        chosen = torch.arange(step * 50, step * 50 + 50) % count
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()
    model.zero_grad()
    return Setting(network, model.eval(), inputs, targets)


def _products(operator: Any, vectors: list[Tensor]) -> Tensor:
    return torch.stack([operator @ vector for vector in vectors])


def _top(s: Setting, layer: str | None, tolerance: float | None = None) -> Tensor:
    if tolerance is None:
        tolerance = TOLERANCE if s.inputs.dtype == torch.float32 else 1e-6
    found = cb.top_eigenpairs(cb.hessian(s.land, layer=layer), EIGENVALUES, tolerance=tolerance)
    s.notes[f"products for the top of {layer or 'all'}"] = found.matvecs
    return found.values


def normal_factors(pairs: dict[str, tuple[Tensor, Tensor]], s: Setting) -> Tensor:
    """Kronecker factors of all dense and convolution weights, each scaled to norm 1, in a row.

    Libraries divide the scale differently between the two factors, and some keep the bias apart.
    """
    parts = []
    for name, module in s.model.named_modules():
        if not isinstance(module, nn.Linear | nn.Conv2d):
            continue
        output, inputs = pairs[name]
        fan_in = module.weight[0].numel()
        factors = (output, inputs[:fan_in, :fan_in])
        parts += [(factor / factor.norm()).reshape(-1) for factor in factors]
    return torch.cat(parts)


def _kronecker_pairs(factors: Any, s: Setting) -> Tensor:
    layers = {
        name: (block.output, block.input)
        for name, block in factors.items()
        if hasattr(block, "output")
    }
    return normal_factors(layers, s)


def as_is(result: Any, s: Setting) -> Tensor:
    if isinstance(result, float):
        return torch.tensor(result, dtype=torch.float64)
    return result.detach()


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: What is asked for.
        run: curvbound's way to it.
        targets: By network, the ratio to a gradient that is aimed at.
        per: What the time is divided by (products).
        read: Makes a comparable tensor of the result.
        examples: The gradient to compare with is that of so many examples.
        estimate: Whether the answer is random, so that libraries cannot agree on digits.
        networks: Where it is measured.
    """

    title: str
    run: Callable[[Setting], Any]
    targets: dict[str, float]
    per: int = 1
    read: Callable[[Any, Setting], Tensor] = as_is
    examples: int | None = None
    estimate: bool = False
    networks: tuple[str, ...] = ("mlp", "lenet", "resnet")


def _aims(*values: float) -> dict[str, float]:
    return dict(zip(NETWORKS, values, strict=False))


ROWS = {
    "hvp": Row(
        "Hessian-vector, one product",
        lambda s: cb.hessian(s.land) @ s.vectors[0],
        _aims(2.7, 2.7, 4.2),
    ),
    "hvp10": Row(
        "Hessian-vector, each of ten products",
        lambda s: _products(cb.hessian(s.land), s.vectors),
        _aims(1.7, 1.7, 3.2),
        per=PRODUCTS,
    ),
    "ggn10": Row(
        "Gauss-Newton-vector, each of ten products",
        lambda s: _products(cb.gauss_newton(s.land), s.vectors),
        _aims(1.4, 1.2, 1.6),
        per=PRODUCTS,
    ),
    "probes": Row(
        "Hutchinson trace, each of ten probes",
        lambda s: cb.trace(cb.hessian(s.land), samples=PROBES).value,
        {},
        per=PROBES,
        estimate=True,
        networks=("mlp", "lenet"),
    ),
    "trace": Row(
        "exact trace of the Gauss-Newton matrix",
        lambda s: cb.trace(cb.gauss_newton(s.land)).value,
        _aims(2.5, 7.0),
        networks=("mlp", "lenet"),
    ),
    "kronecker": Row(
        "Kronecker factors, exact output Hessian",
        lambda s: cb.kronecker(s.land),
        _aims(4.5, 6.5, 8.5),
        read=_kronecker_pairs,
    ),
    "diagonal": Row(
        "exact Gauss-Newton diagonal",
        lambda s: cb.diagonal(s.land),
        _aims(3.0, 6.5, 9.0),
    ),
    "top": Row(
        "top-10 Hessian eigenvalues, whole network",
        lambda s: _top(s, None),
        {},
        networks=("mlp",),
    ),
    "top_fc2": Row(
        "top-10 Hessian eigenvalues, layer fc2",
        lambda s: _top(s, "fc2"),
        _aims(8.0, 10.0),
        networks=("mlp", "lenet"),
    ),
    "gram": Row(
        "Gram matrix of 100 per-example gradients",
        lambda s: cb.gram(s.land, range(GRAM_EXAMPLES)),
        _aims(1.2, 2.5, 2.5),
        examples=GRAM_EXAMPLES,
    ),
}


def disagreement(found: Tensor, reference: Tensor) -> float:
    """Relative error in norm, in double precision; NaN if an entry is not finite."""
    found, reference = found.double().reshape(-1), reference.double().reshape(-1)
    if not bool(torch.isfinite(found).all()) or found.shape != reference.shape:
        return float("nan")
    return float((found - reference).norm() / reference.norm())
