"""What the curvature benchmark times is the right thing: its rows against plain autograd."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

FILE = Path(__file__).parents[2] / "benchmarks" / "curvature_cases.py"
EXAMPLES = 100


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    specification = importlib.util.spec_from_file_location("curvature_cases", FILE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["curvature_cases"] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def setting(cases: ModuleType) -> Any:
    small = cases.Network("small", "F-7^2", (5,), EXAMPLES, EXAMPLES, 20)
    return cases.make_setting(small).double()


@pytest.fixture(scope="module")
def dense_hessian(setting: Any) -> torch.Tensor:
    parameters = list(setting.model.parameters())
    loss = functional.cross_entropy(setting.model(setting.inputs), setting.targets)
    gradient = torch.autograd.grad(loss, parameters, create_graph=True)
    flat = torch.cat([part.reshape(-1) for part in gradient])
    rows = [torch.autograd.grad(entry, parameters, retain_graph=True) for entry in flat]
    return torch.stack([torch.cat([part.reshape(-1) for part in row]) for row in rows])


def answer(cases: ModuleType, key: str, s: Any) -> torch.Tensor:
    row = cases.ROWS[key]
    return row.read(row.run(s), s).double()


def test_products(cases: ModuleType, setting: Any, dense_hessian: torch.Tensor) -> None:
    expected = torch.stack(setting.vectors) @ dense_hessian
    assert cases.disagreement(answer(cases, "hvp", setting), expected[0]) < 1e-10
    assert cases.disagreement(answer(cases, "hvp10", setting), expected) < 1e-10


def test_diagonal_and_trace(cases: ModuleType, setting: Any, dense_hessian: torch.Tensor) -> None:
    # Piecewise linear: the layers' blocks, hence the diagonal, are those of the Hessian.
    expected = dense_hessian.diagonal()
    assert cases.disagreement(answer(cases, "diagonal", setting), expected) < 1e-10
    assert cases.disagreement(answer(cases, "trace", setting), expected.sum()) < 1e-10


def test_eigenvalues(cases: ModuleType, setting: Any, dense_hessian: torch.Tensor) -> None:
    expected = torch.linalg.eigvalsh(dense_hessian).flip(0)[: cases.EIGENVALUES]
    assert cases.disagreement(answer(cases, "top", setting), expected) < 1e-6


def test_gram(cases: ModuleType, setting: Any) -> None:
    gradients = []
    for inputs, targets in zip(setting.inputs, setting.targets, strict=True):
        loss = functional.cross_entropy(setting.model(inputs[None]), targets[None])
        parts = torch.autograd.grad(loss, list(setting.model.parameters()))
        gradients.append(torch.cat([part.reshape(-1) for part in parts]))
    rows = torch.stack(gradients)
    assert cases.disagreement(answer(cases, "gram", setting), rows @ rows.T) < 1e-10


def test_kronecker_factors_are_scaled_to_one(cases: ModuleType, setting: Any) -> None:
    inputs = setting.inputs.T @ setting.inputs
    weights = next(setting.model.parameters())
    first = weights.shape[0] ** 2
    factors = answer(cases, "kronecker", setting)
    found = factors[first : first + inputs.numel()]
    assert cases.disagreement(found, inputs / inputs.norm()) < 1e-10
    assert factors[:first].norm() == pytest.approx(1)


def test_wrong_answers_are_noticed(cases: ModuleType) -> None:
    right = torch.tensor([3.0, 4.0])
    assert cases.disagreement(torch.tensor([3.0, 5.0]), right) == pytest.approx(0.2)
    assert cases.disagreement(torch.tensor([3.0]), right) != 0
    nan = cases.disagreement(torch.tensor([3.0, float("nan")]), right)
    assert nan != nan
