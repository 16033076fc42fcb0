"""End to end without Monte Carlo: logistic regression on MNIST in two classes (T-7).

The Gibbs error of a linear classifier with Gaussian weights is known exactly, so that the whole
chain from the curvature to the bound can be compared with printed numbers.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from curvbound.bounds import LogGrid, finite_grid_charge, pac_bayes_kl
from curvbound.certificates import BlockCurvature, closed_form, optimal_prior_lower_bound
from curvbound.gaussians import isotropic
from oracles.real_data import load_or_skip

SCALES = [10.0 ** (-4 + 0.5 * i) for i in range(13)]
BETAS = [10.0 ** (-7 + 0.5 * i) for i in range(11)]
DELTA, ROOM = 0.05, 2e-3


@dataclass(frozen=True)
class Task:
    inputs: Tensor
    signs: Tensor
    test_inputs: Tensor
    test_signs: Tensor
    weights: Tensor
    hessian: Tensor


def fitted():
    data = load_or_skip("mnist-2")
    (x, y), (test_x, test_y) = data.train, data.test
    x, y = x.flatten(1), 2.0 * y - 1.0
    rows = x * y[:, None]

    def objective(w):
        w = torch.from_numpy(w).float()
        margin = rows @ w
        loss = torch.nn.functional.softplus(-margin).double().mean() + 0.5e-4 * float(w.dot(w))
        gradient = -(rows.T @ torch.sigmoid(-margin)) / len(y) + 1e-4 * w
        return float(loss), gradient.double().numpy()

    found = minimize(
        objective, np.zeros(784), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    weights = torch.from_numpy(found.x)
    p = torch.sigmoid(x.double() @ weights)
    hessian = (x * (p * (1 - p)).float()[:, None]).T @ x / len(y)
    test_signs = 2.0 * test_y - 1.0
    return Task(x, y, test_x.flatten(1), test_signs, weights, hessian.double())


def gibbs_error(squares: Tensor, margins: Tensor, variances: Tensor) -> Tensor:
    """Mean of Phi(-y w.x / sqrt(x^T Sigma x)) for every column of variances."""
    spread = (squares @ variances.to(squares)).double().sqrt()
    z = margins[:, None] / spread
    return 0.5 * torch.erfc(z / math.sqrt(2)).mean(0)


def best_of_grid(task: Task, squares: Tensor, h: Tensor):
    """Bound, risk, KL, scale and beta of the best pair; the 13 scales are paid for."""
    margins = task.signs.double() * (task.inputs.double() @ task.weights)
    pairs = [(scale, beta) for scale in SCALES for beta in BETAS]
    variances = torch.stack([beta / (h + beta / scale) for scale, beta in pairs], 1)
    risks = gibbs_error(squares, margins, variances)
    square = float(task.weights.dot(task.weights))
    results = []
    for (scale, beta), risk, variance in zip(pairs, risks.tolist(), variances.T, strict=True):
        ratio = variance / scale
        kl = 0.5 * (float((ratio - 1 - ratio.log()).sum()) + square / scale)
        results.append((bound(risk, kl), risk, kl, scale, beta))
    return min(results)


def bound(risk: float, kl: float, charge: float | None = None) -> float:
    charge = finite_grid_charge(len(SCALES)) if charge is None else charge
    return pac_bayes_kl(min(1.0, risk), kl, 60_000, DELTA, charge=charge)


def same_by_closed_form(task: Task, curvature: BlockCurvature, result) -> None:
    """The package's own posterior at the winning pair has the same divergence."""
    _, _, kl, scale, beta = result
    mean = {"fc.weight": task.weights[None, :]}
    start = {"fc.weight": torch.zeros(1, 784, dtype=torch.float64)}
    only = LogGrid(precision=0.01, largest=scale * math.exp(100.0))  # point 1 is the scale
    form = closed_form({"fc": curvature}, mean, start, beta, grids={"fc": only})
    assert form.indices["fc"] == 1
    assert form.posterior.kl(isotropic(start, only.scale(1))).total == pytest.approx(kl, rel=1e-9)


def check_baseline(task):
    margins = task.signs.double() * (task.inputs.double() @ task.weights)
    squares = task.inputs.square()
    variances = torch.tensor(SCALES)[None, :].expand(784, -1)
    risks = gibbs_error(squares, margins, variances).tolist()
    square = float(task.weights.dot(task.weights))
    kls = [square / (2 * scale) for scale in SCALES]
    value, risk, kl = min((bound(r, k), r, k) for r, k in zip(risks, kls, strict=True))
    assert value == pytest.approx(0.3018, abs=ROOM)
    assert risk == pytest.approx(0.1976, abs=ROOM)
    assert kl == pytest.approx(1662, rel=0.01)


def check_diagonal_hessian(task):
    h = task.hessian.diagonal()
    result = best_of_grid(task, task.inputs.square(), h)
    assert result[0] == pytest.approx(0.2068, abs=ROOM)
    assert result[1] == pytest.approx(0.1437, abs=ROOM)
    assert result[2] == pytest.approx(783, rel=0.01)
    same_by_closed_form(task, BlockCurvature(h[None, :]), result)


def check_full_hessian(task):
    h, vectors = torch.linalg.eigh(task.hessian)
    h = h.clamp(min=0)
    result = best_of_grid(task, (task.inputs @ vectors.float()).square(), h)
    assert result[0] == pytest.approx(0.1883, abs=ROOM)
    assert result[1] == pytest.approx(0.1411, abs=ROOM)
    assert result[2] == pytest.approx(457, rel=0.01)
    same_by_closed_form(task, BlockCurvature(h[None, :], right=vectors), result)
    # the bound is about the error on new data, which is known here
    _, _, _, scale, beta = result
    squares = (task.test_inputs @ vectors.float()).square()
    margins = task.test_signs.double() * (task.test_inputs.double() @ task.weights)
    unseen = gibbs_error(squares, margins, (beta / (h + beta / scale))[:, None])
    assert float(unseen) == pytest.approx(0.1401, abs=ROOM)


def check_oracle(task):
    h = task.hessian.diagonal()
    found = [optimal_prior_lower_bound(h, task.weights, beta) for beta in BETAS]
    # pixels that are never on have no curvature and no effect: any variance will do
    variances = torch.stack([o.posterior_variance for o in found], 1).nan_to_num(posinf=0.0)
    margins = task.signs.double() * (task.inputs.double() @ task.weights)
    risks = gibbs_error(task.inputs.square(), margins, variances).tolist()
    value, oracle = min(
        ((bound(r, o.kl, 0.0), o) for r, o in zip(risks, found, strict=True)),
        key=lambda pair: pair[0],
    )
    assert value == pytest.approx(0.1845, abs=ROOM)
    assert oracle.kl == pytest.approx(398, rel=0.01)
    assert oracle.kind == "oracle"


@pytest.mark.data
def test_all_four_rows():
    """One test, so that the regression is fitted once whatever runs the tests."""
    task = fitted()
    for check in (check_baseline, check_diagonal_hessian, check_full_hessian, check_oracle):
        check(task)
