import pytest
import torch
from torch import nn

from curvbound import networks
from curvbound.cli.models import load_weights, resolve_model
from curvbound.errors import CurvboundError

MODULE = """
import torch
from torch import nn

def by_shape(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], classes))

def fixed():
    return nn.Linear(3, 2)

def three(a, b, c):
    return None

def fails():
    raise RuntimeError("no such luck")

def number():
    return 7

constant = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch, request):
    """A current folder with a module of factories, under a name that no other test has imported."""
    name = f"factories_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_names_are_those_of_the_papers_networks():
    model = resolve_model("F-20", (4,), 3, init="he", seed=5)
    expected = networks.build("F-20", (4,), 3, init="he", seed=5)
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)


def test_factories_in_the_current_folder_are_found_and_seeded(here):
    state = torch.get_rng_state()
    model = resolve_model(f"{here}:by_shape", (5,), 3, seed=1)
    assert model[1].weight.shape == (3, 5)
    assert torch.equal(state, torch.get_rng_state())
    again = resolve_model(f"{here}:by_shape", (5,), 3, seed=1)
    other = resolve_model(f"{here}:by_shape", (5,), 3, seed=2)
    assert torch.equal(model[1].weight, again[1].weight)
    assert not torch.equal(model[1].weight, other[1].weight)
    assert resolve_model(f"{here}:fixed", (9,), 9).weight.shape == (2, 3)


def test_an_initialisation_can_be_chosen_for_a_factory(here):
    assert torch.equal(resolve_model(f"{here}:fixed", (3,), 2, init="he").bias, torch.zeros(2))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("three", r"must take \(input_shape, classes\) or nothing"),
        ("fails", "failed: RuntimeError: no such luck"),
        ("number", "must give a torch.nn.Module, not int"),
        ("constant", "no function 'constant'"),
        ("missing", "no function 'missing'"),
    ],
)
def test_factories_that_do_not_work_are_refused(here, factory, message):
    with pytest.raises(CurvboundError, match=message):
        resolve_model(f"{here}:{factory}", (3,), 2)


@pytest.mark.parametrize("spec", ["no_such_module_anywhere:build", ":build"])
def test_modules_that_are_not_there_are_refused(spec):
    with pytest.raises(CurvboundError, match="cannot be imported"):
        resolve_model(spec, (3,), 2)


def test_weights_come_back(tmp_path):
    weights = nn.Linear(2, 2).state_dict()
    torch.save(weights, tmp_path / "w.pt")
    assert torch.equal(load_weights(str(tmp_path / "w.pt"))["weight"], weights["weight"])
