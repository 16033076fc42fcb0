"""Priors: what they cost, and that nothing of the bound data reaches them."""

import math

import pytest
import torch

import curvbound as cb
from curvbound import CurvboundError, Landscape, datasets, diagonal, networks
from curvbound.bounds import log_grid_charge
from curvbound.certificates.inputs import halves
from curvbound.certificates.preparation import prepare
from curvbound.certificates.prior import DATA_FREE_GRID, Prior, quiet_grids, require_untrained
from oracles.training import fit


def test_charges_add_up_over_layers_and_tries():
    mean = dict(networks.build("F-4", (3,), 2).named_parameters())
    prior = Prior.from_initialisation(mean, tried=7)
    indices = {"fc1": 3, "fc2": 12}
    charges = prior.charges(indices)
    assert charges["scale of fc1"] == log_grid_charge(3)
    assert charges["tried"] == pytest.approx(math.log(7))
    assert prior.charge(indices) >= math.fsum(charges.values())
    assert prior.charge(indices) == pytest.approx(math.fsum(charges.values()))
    weights = [6 / (math.pi * j) ** 2 for j in range(1, 100_000)]
    assert sum(weights) <= 1  # the charges are those of a union bound


def test_the_distribution_has_the_variances_of_the_grid():
    mean = dict(networks.build("F-4", (3,), 2).named_parameters())
    found = Prior.from_initialisation(mean).distribution({"fc1": 3, "fc2": 12})
    assert found.blocks["fc1"].isotropic
    assert float(found.blocks["fc1"].variance) == DATA_FREE_GRID.scale(3)
    assert float(found.blocks["fc2"].variance) == DATA_FREE_GRID.scale(12)
    assert torch.equal(found.mean["fc1.weight"], mean["fc1.weight"])


def test_quiet_grids_start_at_equal_shares_of_the_loss_increase(digits, trained):
    prepared = prepare(*trained[:1], trained[0], "the prior")
    grids = quiet_grids(prepared, digits)
    land = Landscape(trained[0], digits)
    named = land.unflatten(diagonal(land))
    increases = []
    for layer, grid in grids.items():
        trace = float(sum(t.sum() for n, t in named.items() if n.startswith(f"{layer}.")))
        increases.append(0.5 * grid.scale(1) * trace)
        assert grid.scale(2) == pytest.approx(grid.scale(1) / 10)
    assert increases[0] == pytest.approx(increases[1], rel=1e-4)
    assert 0 < sum(increases) < 0.1


def test_an_untrained_network_passes_and_a_trained_one_does_not(digits, trained):
    model, start = trained
    require_untrained(prepare(model, start, "the initialisation"), digits)
    with pytest.raises(CurvboundError, match="trained on something: say on what with prior_data"):
        require_untrained(prepare(model, model, "the initialisation"), digits)


def replaced(data, seed):
    """Other inputs and labels of the same kind."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(data.inputs.shape, generator=generator)
    return datasets.Examples(inputs, data.random_labels(seed).targets, data.classes)


@pytest.mark.parametrize("change", ["permuted", "replaced"])
def test_the_prior_does_not_know_the_bound_data(digits, trained, change):
    prior_part, bound = halves(digits, 0)
    order = torch.randperm(len(bound), generator=torch.Generator().manual_seed(0))
    other = bound.take(order) if change == "permuted" else replaced(bound, 1)
    model, start = trained
    for options in (
        {"init": start},
        {"prior": trained_on(prior_part), "prior_data": prior_part},
    ):
        first = cb.certify(model, bound, budget="quick", **options)
        second = cb.certify(model, other, budget="quick", **options)
        for name, tensor in first.prior.mean.items():
            assert torch.equal(tensor, second.prior.mean[name])
        # the family of variances is the same; only the choice among them, which is paid for, may
        # differ
        assert first.record.union.largest == second.record.union.largest
        assert first.record.union.precision == second.record.union.precision
        assert first.n == second.n == len(bound)


def trained_on(data):
    return fit(networks.build("F-12", data.shape, 10, seed=3), data, steps=60).state_dict()


def test_in_a_split_the_prior_depends_on_its_part_alone(digits):
    """The bound half is replaced: prior mean and grids stay, bit for bit."""
    prior_part, bound = halves(digits, 0)
    inputs, targets = digits.inputs.clone(), digits.targets.clone()
    positions = torch.isin(digits.origin.rows, bound.origin.rows)
    other = replaced(bound, 2)
    inputs[positions], targets[positions] = other.inputs, other.targets
    changed = datasets.Examples(inputs, targets, 10)
    assert torch.equal(halves(changed, 0)[0].inputs, prior_part.inputs)

    def train(network, data):
        network.load_state_dict(trained_on(data))

    certificates = [
        cb.certify(
            networks.build("F-12", digits.shape, 10, seed=3), data, train=train, budget="quick"
        )
        for data in (digits, changed)
    ]
    one, two = certificates
    for name, tensor in one.prior.mean.items():
        assert torch.equal(tensor, two.prior.mean[name])
    assert one.record.union.largest == two.record.union.largest
    assert one.record.prior.data_hash == two.record.prior.data_hash == prior_part.hash
