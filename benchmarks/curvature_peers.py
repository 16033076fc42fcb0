"""The rows of the curvature benchmark as other libraries compute them, used as their documents say.

Every entry takes a setting and the data in batches and returns (result, number it is divided by).
Set-up that a user does once per network (``extend``, making a ``DataLoader``) is not timed; checks
for determinism are switched off.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from curvature_cases import (
    EIGENVALUES,
    GRAM_EXAMPLES,
    PROBES,
    TOLERANCE,
    Batches,
    Setting,
    as_is,
    normal_factors,
)
from torch import Tensor, nn

# Products of libraries that share nothing between products: ten cost ten times one.
SINGLE = 2


class Peer(NamedTuple):
    """One library's answer to one row.

    Attributes:
        run: Takes the setting and the batches.
        per: What its time is divided by.
        read: Makes a comparable tensor of the result.
        whole: Whether it only takes all data in one batch.
    """

    run: Callable[[Setting, Batches], Any]
    per: int = 1
    read: Callable[[Any, Setting], Tensor] = as_is
    whole: bool = False


def _layer_parameters(s: Setting, layer: str | None) -> list[nn.Parameter]:
    return [p for n, p in s.model.named_parameters() if layer is None or n.startswith(f"{layer}.")]


def _pieces(s: Setting, vector: Tensor) -> list[Tensor]:
    parameters = list(s.model.parameters())
    parts = vector.split([p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]


def _flat(parts: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts]).detach()


# --- curvlinops -------------------------------------------------------------------------------


def _curvlinops(kind: str, s: Setting, batches: Batches, layer: str | None = None) -> Any:
    import curvlinops

    make = getattr(curvlinops, f"{kind}LinearOperator")
    return make(
        s.model,
        nn.CrossEntropyLoss(),
        _layer_parameters(s, layer),
        batches,
        check_deterministic=False,
    )


def _curvlinops_products(kind: str, count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        operator = _curvlinops(kind, s, batches)
        return torch.stack([operator @ vector for vector in s.vectors[:count]])

    return run


def _curvlinops_trace(s: Setting, batches: Batches) -> Tensor:
    from curvlinops import hutchinson_trace

    return hutchinson_trace(_curvlinops("Hessian", s, batches), PROBES)


def _curvlinops_kronecker(s: Setting, batches: Batches) -> Any:
    from curvlinops import FisherType, KFACLinearOperator

    supported = [
        p
        for module in s.model.modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
        for p in module.parameters()
    ]
    operator = KFACLinearOperator(
        s.model,
        nn.CrossEntropyLoss(),
        supported,
        batches,
        fisher_type=FisherType.TYPE2,
        check_deterministic=False,
        separate_weight_and_bias=False,
    )
    operator.compute_kronecker_factors()
    return operator


def _curvlinops_pairs(operator: Any, s: Setting) -> Tensor:
    outputs, inputs = operator._gradient_covariances, operator._input_covariances
    return normal_factors({name: (outputs[name], inputs[name]) for name in outputs}, s)


def _curvlinops_top(layer: str | None) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from scipy.sparse.linalg import eigsh

        operator = _curvlinops("Hessian", s, batches, layer).to_scipy()
        values = eigsh(
            operator, k=EIGENVALUES, which="LA", tol=TOLERANCE, return_eigenvectors=False
        )
        return torch.tensor(values).sort(descending=True).values

    return run


# --- hessian-eigenthings ----------------------------------------------------------------------


def _eigenthings(kind: str, s: Setting, batches: Batches, layer: str | None = None) -> Any:
    import hessian_eigenthings as het

    loss = nn.CrossEntropyLoss()
    chosen = None if layer is None else (lambda name, _: name.startswith(f"{layer}."))
    if kind == "Hessian":
        return het.HessianOperator(s.model, batches, het.supervised_loss(loss), param_filter=chosen)
    return het.GGNOperator(
        s.model, batches, het.supervised_forward, het.supervised_loss_of_output(loss)
    )


def _eigenthings_products(kind: str, count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        operator = _eigenthings(kind, s, batches)
        return torch.stack([operator.matvec(vector) for vector in s.vectors[:count]])

    return run


def _eigenthings_trace(s: Setting, batches: Batches) -> Tensor:
    from hessian_eigenthings import hutchinson

    operator = _eigenthings("Hessian", s, batches)
    return torch.tensor(hutchinson(operator, num_samples=PROBES, seed=0).estimate)


def _eigenthings_top(layer: str | None) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from hessian_eigenthings import lanczos

        operator = _eigenthings("Hessian", s, batches, layer)
        # It takes a number of steps, not an accuracy: the smallest that converges is looked up once.
        key = f"eigenthings steps {layer}"
        for steps in s.notes.get(key, (20, 25, 30, 35, 40, 50, 60, 80)):
            found = lanczos(
                operator, k=EIGENVALUES, max_iter=steps, tol=TOLERANCE, which="LA", seed=0
            )
            if bool(found.converged.all()):
                break
        s.notes[key] = (steps,)
        return found.eigenvalues.sort(descending=True).values

    return run


# --- BackPACK ---------------------------------------------------------------------------------


def _backpack_model(s: Setting) -> nn.Module:
    from backpack import extend

    return s.copy_for("backpack", lambda model: extend(model, use_converter=_branches(model)))


def _branches(model: nn.Module) -> bool:
    return not isinstance(model, nn.Sequential)


def _backpack_hessian(count: int) -> Callable[[Setting, Batches], Tensor]:
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


def _backpack_gauss_newton(count: int) -> Callable[[Setting, Batches], Tensor]:
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


def _backpack_diagonal(s: Setting, batches: Batches) -> Tensor:
    from backpack.extensions import DiagGGNExact

    total: Any = 0.0
    for model, share in _backpack_passes(s, batches, DiagGGNExact()):
        total = total + share * _flat(p.diag_ggn_exact for p in model.parameters())
    return total


def _backpack_kronecker(s: Setting, batches: Batches) -> dict[str, tuple[Tensor, Tensor]]:
    from backpack.extensions import KFLR

    sums: dict[str, tuple[Tensor, Tensor]] = {}
    for model, share in _backpack_passes(s, batches, KFLR()):
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                output, inputs = (share * factor for factor in module.weight.kflr)
                old = sums.get(name, (0.0, 0.0))
                sums[name] = (old[0] + output, old[1] + inputs)
    return sums


def _backpack_gram(s: Setting, batches: Batches) -> Tensor:
    from backpack.extensions import BatchGrad

    first = [(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])]
    [(model, _)] = _backpack_passes(s, first, BatchGrad(), "sum")
    rows = torch.cat([p.grad_batch.flatten(1) for p in model.parameters()], 1)
    return rows @ rows.T


# --- nngeometry -------------------------------------------------------------------------------


def _loader(batches: Batches) -> Any:
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(*(torch.cat(part) for part in zip(*batches, strict=True)))
    return DataLoader(data, batch_size=len(batches[0][1]))


def _nngeometry(representation: str) -> Callable[[Setting, Batches], Any]:
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


def _nngeometry_pairs(matrix: Any, s: Setting) -> Tensor:
    layers = [n for n, m in s.model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    factors = [pair for pair in matrix.data.values() if isinstance(pair, tuple)]
    pairs = {name: (g, a) for name, (a, g) in zip(layers, factors, strict=True)}
    return normal_factors(pairs, s)


def _nngeometry_gram(s: Setting, batches: Batches) -> Tensor:
    from nngeometry.gram import GramMatrix

    model = s.copy_for("nngeometry", lambda m: m)
    first = [(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])]

    def log_likelihood(inputs: Tensor, targets: Tensor) -> Tensor:
        return model(inputs).log_softmax(1).gather(1, targets.unsqueeze(1))

    layers = _nngeometry_layers(model, only_matrices=False)
    matrix = GramMatrix(model, _loader(first), function=log_likelihood, layer_collection=layers)
    return matrix.to_torch().reshape(GRAM_EXAMPLES, GRAM_EXAMPLES)


# --- laplace ----------------------------------------------------------------------------------


def _laplace(backend: str, s: Setting) -> Any:
    import laplace.curvature

    def prepare(model: nn.Module) -> nn.Module:
        model.output_size = 10
        return model

    model = s.copy_for(f"laplace {backend}", prepare)
    return getattr(laplace.curvature, f"{backend}GGN")(model, "classification")


def _laplace_kronecker(backend: str) -> Callable[[Setting, Batches], Any]:
    def run(s: Setting, batches: Batches) -> Any:
        source, total = _laplace(backend, s), None
        for inputs, targets in batches:
            _, factors = source.kron(inputs, targets, N=len(s.targets))
            total = factors if total is None else total + factors
        return total

    return run


def _laplace_pairs(factors: Any, s: Setting) -> Tensor:
    layers = [n for n, m in s.model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    both = [pair for pair in factors.kfacs if len(pair) == 2]
    return normal_factors(dict(zip(layers, both, strict=True)), s)


def _laplace_diagonal(s: Setting, batches: Batches) -> Tensor:
    source = _laplace("Asdl", s)
    total = sum(source.diag(inputs, targets)[1] for inputs, targets in batches)
    return total / len(s.targets)


def _laplace_gram(s: Setting, batches: Batches) -> Tensor:
    rows, _ = _laplace("Asdl", s).gradients(s.inputs[:GRAM_EXAMPLES], s.targets[:GRAM_EXAMPLES])
    return rows @ rows.T


def _from_pairs(pairs: dict[str, tuple[Tensor, Tensor]], s: Setting) -> Tensor:
    return normal_factors(pairs, s)


def _trace_of_diagonal(run: Callable[[Setting, Batches], Tensor]) -> Callable[..., Tensor]:
    return lambda s, batches: run(s, batches).sum(dtype=torch.float64)


CURVLINOPS, EIGENTHINGS = "curvlinops", "hessian-eigenthings"
BACKPACK, NNGEOMETRY = "BackPACK", "nngeometry"
ASDL, LAPLACE_CURVLINOPS = "laplace (asdl)", "laplace (curvlinops)"
LIBRARIES = (CURVLINOPS, EIGENTHINGS, BACKPACK, NNGEOMETRY, ASDL, LAPLACE_CURVLINOPS)

PEERS: dict[str, dict[str, Peer]] = {
    "hvp": {
        CURVLINOPS: Peer(_curvlinops_products("Hessian", 1)),
        EIGENTHINGS: Peer(_eigenthings_products("Hessian", 1)),
        BACKPACK: Peer(_backpack_hessian(1)),
    },
    "hvp10": {
        CURVLINOPS: Peer(_curvlinops_products("Hessian", SINGLE), SINGLE),
        EIGENTHINGS: Peer(_eigenthings_products("Hessian", SINGLE), SINGLE),
        BACKPACK: Peer(_backpack_hessian(10), 10),
    },
    "ggn10": {
        CURVLINOPS: Peer(_curvlinops_products("GGN", SINGLE), SINGLE),
        EIGENTHINGS: Peer(_eigenthings_products("GGN", SINGLE), SINGLE),
        BACKPACK: Peer(_backpack_gauss_newton(10), 10),
    },
    "probes": {
        CURVLINOPS: Peer(_curvlinops_trace, PROBES),
        EIGENTHINGS: Peer(_eigenthings_trace, PROBES),
    },
    "trace": {
        BACKPACK: Peer(_trace_of_diagonal(_backpack_diagonal)),
    },
    "kronecker": {
        CURVLINOPS: Peer(_curvlinops_kronecker, read=_curvlinops_pairs),
        BACKPACK: Peer(_backpack_kronecker, read=_from_pairs),
        NNGEOMETRY: Peer(_nngeometry("PMatKFAC"), read=_nngeometry_pairs),
        ASDL: Peer(_laplace_kronecker("Asdl"), read=_laplace_pairs),
        LAPLACE_CURVLINOPS: Peer(_laplace_kronecker("Curvlinops"), read=_laplace_pairs),
    },
    "diagonal": {
        BACKPACK: Peer(_backpack_diagonal),
        NNGEOMETRY: Peer(_nngeometry("PMatDiag"), read=lambda matrix, s: matrix.get_diag()),
        ASDL: Peer(_laplace_diagonal),
    },
    "top": {
        CURVLINOPS: Peer(_curvlinops_top(None)),
        EIGENTHINGS: Peer(_eigenthings_top(None)),
    },
    "top_fc2": {
        CURVLINOPS: Peer(_curvlinops_top("fc2")),
        EIGENTHINGS: Peer(_eigenthings_top("fc2")),
    },
    "gram": {
        BACKPACK: Peer(_backpack_gram, whole=True),
        NNGEOMETRY: Peer(_nngeometry_gram, whole=True),
        ASDL: Peer(_laplace_gram, whole=True),
    },
}


def import_all() -> None:
    """Load every library before memory is measured."""
    warnings.simplefilter("ignore")
    import backpack.extensions
    import curvlinops
    import hessian_eigenthings
    import laplace.curvature
    import nngeometry.metrics
    import nngeometry.object
    import scipy.sparse.linalg  # noqa: F401
