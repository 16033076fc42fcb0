"""Products, traces and eigenvalues as curvlinops and hessian-eigenthings compute them."""

from collections.abc import Callable
from typing import Any

import torch
from curvature_cases import EIGENVALUES, PROBES, TOLERANCE, Batches, Setting, normal_factors
from torch import Tensor, nn


def _layer_parameters(s: Setting, layer: str | None) -> list[nn.Parameter]:
    return [p for n, p in s.model.named_parameters() if layer is None or n.startswith(f"{layer}.")]


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


def curvlinops_products(kind: str, count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        operator = _curvlinops(kind, s, batches)
        return torch.stack([operator @ vector for vector in s.vectors[:count]])

    return run


def curvlinops_trace(s: Setting, batches: Batches) -> Tensor:
    from curvlinops import hutchinson_trace

    return hutchinson_trace(_curvlinops("Hessian", s, batches), PROBES)


def curvlinops_kronecker(s: Setting, batches: Batches) -> Any:
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


def curvlinops_pairs(operator: Any, s: Setting) -> Tensor:
    outputs, inputs = operator._gradient_covariances, operator._input_covariances
    return normal_factors({name: (outputs[name], inputs[name]) for name in outputs}, s)


def curvlinops_top(layer: str | None) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from scipy.sparse.linalg import eigsh

        operator = _curvlinops("Hessian", s, batches, layer).to_scipy()
        values = eigsh(
            operator, k=EIGENVALUES, which="LA", tol=TOLERANCE, return_eigenvectors=False
        )
        return torch.tensor(values).sort(descending=True).values

    return run


def _eigenthings(kind: str, s: Setting, batches: Batches, layer: str | None = None) -> Any:
    import hessian_eigenthings as het

    loss = nn.CrossEntropyLoss()
    chosen = None if layer is None else (lambda name, _: name.startswith(f"{layer}."))
    if kind == "Hessian":
        return het.HessianOperator(s.model, batches, het.supervised_loss(loss), param_filter=chosen)
    return het.GGNOperator(
        s.model, batches, het.supervised_forward, het.supervised_loss_of_output(loss)
    )


def eigenthings_products(kind: str, count: int) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        operator = _eigenthings(kind, s, batches)
        return torch.stack([operator.matvec(vector) for vector in s.vectors[:count]])

    return run


def eigenthings_trace(s: Setting, batches: Batches) -> Tensor:
    from hessian_eigenthings import hutchinson

    operator = _eigenthings("Hessian", s, batches)
    return torch.tensor(hutchinson(operator, num_samples=PROBES, seed=0).estimate)


def eigenthings_top(layer: str | None) -> Callable[[Setting, Batches], Tensor]:
    def run(s: Setting, batches: Batches) -> Tensor:
        from hessian_eigenthings import lanczos

        operator = _eigenthings("Hessian", s, batches, layer)
        # It takes a number of steps, not an accuracy: the smallest that does is looked up once.
        key = f"eigenthings steps {layer}"
        for steps in s.notes.get(key, (20, 25, 30, 35, 40, 50, 60, 80, 120)):
            found = lanczos(
                operator,
                k=EIGENVALUES,
                max_iter=steps,
                tol=TOLERANCE,
                which="LA",
                seed=0,
                reorthogonalize=True,
            )
            if bool(found.converged.all()):
                break
        s.notes[key] = (steps,)
        return found.eigenvalues.sort(descending=True).values

    return run
