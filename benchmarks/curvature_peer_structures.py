"""Rows of the curvature benchmark as BackPACK, nngeometry and laplace compute them."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from curvature_cases import GRAM_EXAMPLES, Batches, Setting, normal_factors
from torch import Tensor, nn


def _pieces(s: Setting, vector: Tensor) -> list[Tensor]:
    parameters = list(s.model.parameters())
    parts = vector.split([p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]


def _flat(parts: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts]).detach()


def _backpack_model(s: Setting) -> nn.Module:
    from backpack import extend

    return s.copy_for("backpack", lambda model: extend(model, use_converter=_branches(model)))


def _branches(model: nn.Module) -> bool:
    return not isinstance(model, nn.Sequential)


def backpack_hessian(count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from backpack.hessianfree.hvp import hessian_vector_product

        loss, parameters = nn.CrossEntropyLoss(), list(s.model.parameters())
        totals = [torch.zeros_like(s.vectors[0]) for _ in range(count)]
        for inputs, targets in batches:
            value = loss(s.model(inputs), targets) * (len(targets) / len(s.targets))
            gradients = torch.autograd.grad(value, parameters, create_graph=True)
            for total, vector in zip(totals, s.vectors, strict=False):
                pieces = _pieces(s, vector)
                total += _flat(hessian_vector_product(value, parameters, pieces, gradients))
        return torch.stack(totals)

    return run


def backpack_gauss_newton(count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from backpack.hessianfree.ggnvp import ggn_vector_product

        loss = nn.CrossEntropyLoss()
        totals = [torch.zeros_like(s.vectors[0]) for _ in range(count)]
        for inputs, targets in batches:
            outputs = s.model(inputs)
            value = loss(outputs, targets) * (len(targets) / len(s.targets))
            for total, vector in zip(totals, s.vectors, strict=False):
                total += _flat(ggn_vector_product(value, outputs, s.model, _pieces(s, vector)))
        return torch.stack(totals)

    return run


def _backpack_passes(
    s: Setting, batches: Batches, extension: Any, reduction: str = "mean"
) -> Iterator[tuple[nn.Module, float]]:
    from backpack import backpack, extend

    model = _backpack_model(s)
    loss = extend(nn.CrossEntropyLoss(reduction=reduction))
    for inputs, targets in batches:
        model.zero_grad()
        with backpack(extension):
            loss(model(inputs), targets).backward()
        yield model, len(targets) / sum(len(labels) for _, labels in batches)


def backpack_diagonal(s: Setting, batches: Batches) -> Tensor:
    from backpack.extensions import DiagGGNExact

    total: Any = 0.0
    for model, share in _backpack_passes(s, batches, DiagGGNExact()):
        total = total + share * _flat(p.diag_ggn_exact for p in model.parameters())
    return total


def backpack_kronecker(s: Setting, batches: Batches) -> dict[str, tuple[Tensor, Tensor]]:
    from backpack.extensions import KFLR

    sums: dict[str, tuple[Tensor, Tensor]] = {}
    for model, share in _backpack_passes(s, batches, KFLR()):
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                output, inputs = (share * factor for factor in module.weight.kflr)
                old = sums.get(name, (0.0, 0.0))
                sums[name] = (old[0] + output, old[1] + inputs)
    return sums


def backpack_gram(s: Setting, batches: Batches) -> Tensor:
    from backpack.extensions import BatchGrad

    first = [(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])]
    [(model, _)] = _backpack_passes(s, first, BatchGrad(), "sum")
    rows = torch.cat([p.grad_batch.flatten(1) for p in model.parameters()], 1)
    return rows @ rows.T


def _loader(batches: Batches) -> Any:
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(*(torch.cat(part) for part in zip(*batches, strict=True)))
    return DataLoader(data, batch_size=len(batches[0][1]))


def nngeometry_fisher(representation: str) -> Callable[[Setting, Batches], Any]:
    def run(s: Setting, batches: Batches) -> Any:
        import nngeometry.object
        from nngeometry.metrics import FIM

        model = s.copy_for("nngeometry", lambda m: m)
        kind = getattr(nngeometry.object, representation)
        layers = _nngeometry_layers(model, only_matrices=representation == "PMatKFAC")
        return FIM(model, _loader(batches), kind, layer_collection=layers)

    return run


def _nngeometry_layers(model: nn.Module, only_matrices: bool) -> Any:
    from nngeometry.layercollection import LayerCollection

    if not only_matrices:
        return LayerCollection.from_model(model)
    chosen = LayerCollection()
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            chosen.add_layer_from_model(model, module)
    return chosen


def nngeometry_pairs(matrix: Any, s: Setting) -> Tensor:
    layers = [n for n, m in s.model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    factors = [pair for pair in matrix.data.values() if isinstance(pair, tuple)]
    pairs = {name: (g, a) for name, (a, g) in zip(layers, factors, strict=True)}
    return normal_factors(pairs, s)


def nngeometry_gram(s: Setting, batches: Batches) -> Tensor:
    from nngeometry.gram import GramMatrix

    model = s.copy_for("nngeometry", lambda m: m)
    first = [(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])]

    def log_likelihood(inputs: Tensor, targets: Tensor) -> Tensor:
        return model(inputs).log_softmax(1).gather(1, targets.unsqueeze(1))

    layers = _nngeometry_layers(model, only_matrices=False)
    matrix = GramMatrix(model, _loader(first), function=log_likelihood, layer_collection=layers)
    return matrix.to_torch().reshape(GRAM_EXAMPLES, GRAM_EXAMPLES)


def _laplace(backend: str, s: Setting) -> Any:
    import laplace.curvature

    def prepare(model: nn.Module) -> nn.Module:
        model.output_size = 10
        return model

    model = s.copy_for(f"laplace {backend}", prepare)
    return getattr(laplace.curvature, f"{backend}GGN")(model, "classification")


def laplace_kronecker(backend: str) -> Callable[[Setting, Batches], Any]:
    def run(s: Setting, batches: Batches) -> Any:
        source, total = _laplace(backend, s), None
        for inputs, targets in batches:
            _, factors = source.kron(inputs, targets, N=len(s.targets))
            total = factors if total is None else total + factors
        return total

    return run


def laplace_pairs(factors: Any, s: Setting) -> Tensor:
    layers = [n for n, m in s.model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    both = [pair for pair in factors.kfacs if len(pair) == 2]
    return normal_factors(dict(zip(layers, both, strict=True)), s)


def laplace_diagonal(s: Setting, batches: Batches) -> Tensor:
    source = _laplace("Asdl", s)
    total = sum(source.diag(inputs, targets)[1] for inputs, targets in batches)
    return total / len(s.targets)


def laplace_gram(s: Setting, batches: Batches) -> Tensor:
    rows, _ = _laplace("Asdl", s).gradients(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])
    return rows @ rows.T
