"""Which approximation a layer gets, and that the result says so."""

import pytest

from curvbound.curvature import kronecker_pass
from curvbound.curvature.captures import plan_captures
from curvbound.curvature.kronecker_pass import layer_methods
from curvbound.landscape import Landscape
from oracles.networks import BY_NAME


def methods(name):
    model, X, y = BY_NAME[name].make(seed=1)
    land = Landscape(model, (X, y))
    return layer_methods(land, plan_captures(land))


@pytest.mark.parametrize(
    ("name", "layer", "kind", "words"),
    [
        ("dense", "0", "kronecker", "exact output Hessian"),
        ("conv", "0", "kronecker", "averaged over 16 output pixels"),
        ("shared", "embed", "kronecker", "averaged over 4 positions"),
        ("residual", "norm", "dense", "exact block"),
        ("bag", "embedding", "diagonal", "embedding"),
        ("twice", "again", "diagonal", "used repeatedly"),
        ("tied", "embedding", "diagonal", "used repeatedly"),
        ("attention", "attention", "diagonal", "attention.in_proj_weight: it is not used by"),
        ("recurrent", "lstm", "diagonal", "not used by"),
        ("bare", "(model)", "diagonal", "not used by"),
    ],
)
def test_choice(name, layer, kind, words):
    method = methods(name)[layer]
    assert method.kind == kind
    assert words in method.note


def test_large_normalisation_layers_get_their_diagonal(monkeypatch):
    monkeypatch.setattr(kronecker_pass, "DENSE_LIMIT", 5)
    assert methods("residual")["norm"].kind == "diagonal"
