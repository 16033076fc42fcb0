"""From a trained network to a certificate, by every route, and everything that must be refused."""

import copy

import pytest
import torch
from torch import nn

import curvbound as cb
from curvbound import CurvboundError, datasets, networks
from curvbound.bounds import clopper_pearson
from curvbound.certificates.claims import mistakes
from curvbound.certificates.inputs import halves
from oracles.training import fit


@pytest.fixture(scope="module")
def parts(digits):
    return halves(digits, 0)


@pytest.fixture(scope="module")
def by_prior(digits, trained, parts):
    prior_part, bound = parts
    prior = fit(networks.build("F-12", digits.shape, 10, seed=3), prior_part)
    return cb.certify(trained[0], bound, prior=prior, prior_data=prior_part, budget="quick")


ROUTES = ["by_init", "by_split", "by_prior"]


@pytest.mark.parametrize("route", ROUTES)
def test_what_every_certificate_says(request, route):
    cert = request.getfixturevalue(route)
    assert cert.kind == "certificate"
    assert cert.about == "the randomised network"
    assert cert.confidence == 0.95
    assert cert.delta == {"PAC-Bayes": 0.04, "Monte Carlo": 0.01}
    assert 0 < cert.empirical_risk < cert.bound <= 1
    assert cert.kl == cert.posterior.kl(cert.prior).total
    assert [claim.about for claim in cert.record.claims] == [
        "the randomised network",
        "one drawn network",
        "the majority vote",
    ]
    for claim in cert.record.claims:
        assert claim.bound >= claim.risk
    assert cert.record.assumptions
    assert cert.record.versions["torch"] == torch.__version__


def test_n_is_the_size_of_the_bound_data(by_init, by_split, by_prior, digits, parts):
    assert by_init.n == len(digits)
    assert by_split.n == len(parts[1]) == 200
    assert by_prior.n == len(parts[1])
    assert by_split.record.data.hash == parts[1].hash
    assert by_split.record.prior.data_hash == parts[0].hash


def test_the_initialisation_is_the_prior_mean(by_init, trained):
    for name, tensor in by_init.prior.mean.items():
        assert torch.equal(tensor, trained[1][name])
    assert by_init.record.prior.source == "initialisation"
    assert by_init.record.prior.specification["seed"] == 3
    assert by_init.holdout is None


def test_only_weights_that_a_seed_draws_are_said_to_come_from_it(digits, trained):
    model, start = trained
    other = {name: 1.1 * tensor for name, tensor in start.items()}
    cert = cb.certify(model, digits, init=other, budget="quick")
    assert cert.record.prior.specification is None
    assert cert.record.network["name"] == "F-12"


def test_a_split_brings_the_hold_out_bound_of_the_prior_network(by_split):
    held = by_split.holdout
    assert held.about == "the network trained on the prior part"
    assert held.examples == by_split.n
    assert held.bound == clopper_pearson(held.errors, held.examples, 0.05)
    assert by_split.bound < 0.9


def test_held_out_data_alone_give_a_bound_about_the_network_itself(by_heldout, trained):
    cert = by_heldout
    assert (cert.about, cert.kl, cert.n) == ("the network itself", 0.0, 150)
    held = datasets.load("digits").test.take(range(150))
    with torch.no_grad():
        wrong = int((trained[0](held.inputs).argmax(1) != held.targets).sum())
    assert cert.holdout.errors == wrong
    assert cert.bound == clopper_pearson(wrong, 150, 0.05)
    assert cert.delta == {"hold-out": 0.05}
    assert cert.empirical_risk == pytest.approx(wrong / 150)
    assert cert.record.union is None


def test_held_out_data_beside_a_prior_give_the_bound_to_compare_with(digits, trained):
    held = datasets.load("digits").test.take(range(100))
    model, start = trained
    cert = cb.certify(model, digits, init=start, heldout=held, budget="quick")
    assert cert.about == "the randomised network"
    assert cert.holdout.about == "the network itself"
    assert cert.holdout.examples == 100


def test_held_out_data_beside_a_recipe_are_about_the_trained_network(digits):
    held = datasets.load("digits").test.take(range(100))
    model = networks.build("F-12", digits.shape, 10, seed=3)
    cert = cb.certify(model, digits, train=fit, heldout=held, budget="quick")
    assert cert.holdout.about == "the network trained on all the data"
    assert cert.holdout.examples == 100
    assert cert.n == 200


def test_a_recipe_by_name_trains_too(digits):
    model = networks.build("F-8", digits.shape, 10, seed=1)
    before = copy.deepcopy(model.state_dict())
    cert = cb.certify(model, digits.take(range(260)), train="fast", budget="quick")
    assert cert.n == 130
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_recipe_can_start_from_given_weights(digits):
    model = networks.build("F-8", digits.shape, 10, seed=1)
    start = networks.build("F-8", digits.shape, 10, seed=2).state_dict()
    seen = []

    def train(network, data):
        seen.append({name: tensor.clone() for name, tensor in network.state_dict().items()})

    cb.certify(model, digits, init=start, train=train, budget="quick")
    assert torch.equal(seen[0]["fc1.weight"], start["fc1.weight"])


def test_the_best_of_several_networks_on_held_out_data_is_not_waved_through(digits, trained):
    held = datasets.load("digits").test.take(range(50))
    with pytest.raises(CurvboundError, match=r"ask for delta=0\.005 instead"):
        cb.certify(trained[0], digits, heldout=held, tried=10)


def test_frozen_parts_are_no_part_of_what_a_seed_draws(digits, trained, tmp_path):
    model, start = copy.deepcopy(trained[0]), copy.deepcopy(trained[1])
    model.fc1.requires_grad_(False)
    start |= {name: tensor for name, tensor in model.state_dict().items() if "fc1" in name}
    cert = cb.certify(model, digits, init=start, budget="quick")
    assert set(cert.posterior.mean) == {"fc2.weight", "fc2.bias"}
    assert cert.record.network is None
    assert cert.record.prior.specification is None
    path = cert.save(tmp_path / "frozen.json")
    loaded = cb.Certificate.load(path, model=model)
    assert mistakes(loaded.network("drawn"), digits) == cert.record.drawn_errors


def test_without_a_prior_the_four_ways_out_are_named(trained, digits):
    with pytest.raises(CurvboundError) as caught:
        cb.certify(trained[0], digits)
    for way in ("init=", "heldout=", "prior= with prior_data=", "train="):
        assert way in str(caught.value)


@pytest.mark.parametrize("structure", ["isotropic", "diagonal", "neuron-block", "kronecker"])
def test_every_structure_gives_a_certificate(digits, trained, structure):
    model, start = trained
    cert = cb.certify(model, digits, init=start, posterior=structure, budget="quick")
    assert cert.record.posterior_structure == structure
    block = cert.posterior.blocks["fc1"]
    assert (block.right is not None) == (structure in ("neuron-block", "kronecker"))
    assert (block.left is not None) == (structure == "kronecker")
    assert block.isotropic == (structure == "isotropic")


def test_the_same_call_gives_the_same_certificate_and_leaves_the_network_alone(digits, trained):
    model, start = trained
    torch.manual_seed(11)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    certificates = [cb.certify(model, digits, init=start, budget="quick") for _ in range(2)]
    one, two = (cert.record.model_dump(exclude={"seconds"}) for cert in certificates)
    assert one == two
    assert torch.equal(state, torch.get_rng_state())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(p.grad is None for p in model.parameters())
    assert not model._forward_hooks


def test_keep_mean_keeps_the_network(digits, trained):
    model, start = trained
    cert = cb.certify(model, digits, init=start, keep_mean=True, budget="quick")
    assert not cert.record.mean_moved
    assert cert.record.agreement == 1.0
    for name, tensor in model.named_parameters():
        assert torch.equal(cert.posterior.mean[name], tensor)


def test_tries_are_charged(digits, trained, by_init):
    model, start = trained
    cert = cb.certify(model, digits, init=start, tried=1000, budget="quick")
    assert cert.record.union.charges["tried"] == pytest.approx(6.9078, abs=1e-4)
    assert cert.bound > by_init.bound
    assert "no more than 1000 priors" in " ".join(cert.record.assumptions)


def test_delta_is_what_was_asked_for(digits, trained):
    model, start = trained
    cert = cb.certify(model, digits, init=start, delta=0.001, budget="quick")
    assert cert.confidence == 0.999
    assert cert.record.claims[1].delta == {"one draw": 0.001}


def test_an_initialisation_that_was_trained_is_refused(digits, trained, parts):
    model, _ = trained
    with pytest.raises(CurvboundError, match="trained on something: say on what with prior_data="):
        cb.certify(model, digits, init=model.state_dict())
    prior_part, bound = parts
    pretrained = fit(networks.build("F-12", digits.shape, 10, seed=3), prior_part)
    cert = cb.certify(model, bound, init=pretrained, prior_data=prior_part, budget="quick")
    assert cert.record.prior.source == "disjoint data"
    with pytest.raises(CurvboundError, match="trained on something"):
        cb.certify(pretrained, digits, train=fit)


def test_a_prior_that_has_seen_the_bound_data_is_refused(digits, trained, parts):
    prior_part, _ = parts
    with pytest.raises(CurvboundError, match="200 examples are in both the prior data"):
        cb.certify(trained[0], digits, prior=trained[0], prior_data=prior_part)
    with pytest.raises(CurvboundError, match="400 examples are in both the training data"):
        cb.certify(trained[0], digits, heldout=digits)


def test_identical_rows_are_reported(digits, trained, parts):
    prior_part, bound = parts
    inputs = torch.cat([prior_part.inputs, bound.inputs[:3]])
    targets = torch.cat([prior_part.targets, bound.targets[:3]])
    seen = datasets.Examples(inputs, targets, classes=10)
    cert = cb.certify(trained[0], bound, prior=trained[1], prior_data=seen, budget="quick")
    assert cert.record.data.repeated_rows == 3
    assert "3 bound examples equal rows the prior has seen" in str(cert)


def test_scaling_fitted_on_the_bound_data_is_refused(digits, trained, parts):
    prior_part, bound = parts
    own = bound.scaled(datasets.fit_scaling(bound))
    for options in (
        {"init": trained[1]},
        {"prior": trained[1], "prior_data": prior_part},
        {"train": fit},
    ):
        with pytest.raises(CurvboundError, match="scaled with constants fitted on the bound data"):
            cb.certify(trained[0], own, **options)
    with pytest.raises(CurvboundError, match="fitted on the bound data"):
        cb.certify(trained[0], prior_part, heldout=own)
    scaled = bound.scaled(datasets.fit_scaling(prior_part))
    assert cb.certify(trained[0], scaled, init=trained[1], budget="quick").n == 200


def batch_norm_network(digits):
    model = networks.build("F-8-BN", digits.shape, 10, seed=0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return fit(model, digits), start


def test_batch_norm_belongs_to_the_posterior(digits):
    model, start = batch_norm_network(digits)
    cert = cb.certify(model, digits, init=start, keep_mean=True, budget="quick")
    assert cert.record.settings["batch_norm_converted"] == ["bn1"]
    assert {"bn1.weight", "bn1.bias"} <= set(cert.posterior.mean)
    assert cert.prior.mean["bn1.weight"].allclose(torch.ones(8), atol=1e-4)
    assert not cert.posterior.mean["bn1.weight"].allclose(torch.ones(8), atol=1e-2)
    mean = copy.deepcopy(cert.network().network)
    mean.load_state_dict({**mean.state_dict(), **cert.posterior.mean})
    with torch.no_grad():
        torch.testing.assert_close(mean(digits.inputs), model(digits.inputs), rtol=1e-4, atol=1e-4)
    assert cert.record.kl_layers["bn1"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": float("nan")}, "delta is NaN"),
        ({"delta": "small"}, "delta must be a number"),
        ({"tried": 0}, "tried must be a whole number"),
        ({"tried": 2.5}, "tried must be a whole number"),
        ({"posterior": "full"}, "no posterior 'full'"),
        ({"budget": "endless"}, "no budget 'endless'"),
        ({"prior": {}}, "one of init=, prior= and train="),
        ({"init": None, "prior": {}}, "belongs to another architecture"),
        ({"init": None, "prior_data": 1, "train": "fast"}, "prior_data= says what"),
        ({"init": None, "prior_data": 1}, "prior_data= says what"),
        ({"init": 3}, "must be a state dict or a network"),
    ],
)
def test_options_that_make_no_sense_are_refused(digits, trained, options, message):
    model, start = trained
    with pytest.raises(CurvboundError, match=message):
        cb.certify(model, digits, **{"init": start, **options})


def test_a_trained_prior_needs_its_data(digits, trained):
    with pytest.raises(CurvboundError, match="needs prior_data="):
        cb.certify(trained[0], digits, prior=trained[1])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(digits, trained, value):
    model, start = copy.deepcopy(trained[0]), trained[1]
    with torch.no_grad():
        model.fc1.weight[0, 0] = value
    for options in ({"init": start}, {"init": start, "keep_mean": True}):
        with pytest.raises(CurvboundError, match=r"NaN|finite"):
            cb.certify(model, digits, budget="quick", **options)


def test_data_of_another_shape_or_with_other_labels_are_refused(digits, trained):
    model, start = trained
    with pytest.raises(CurvboundError, match=r"cannot process inputs of shape \(20, 7\)"):
        cb.certify(model, (torch.rand(20, 7), torch.zeros(20, dtype=torch.int64)), init=start)
    with pytest.raises(CurvboundError, match="label"):
        cb.certify(model, (digits.inputs[:20], torch.full((20,), 10)), init=start, budget="quick")


def test_a_prior_of_another_architecture_is_refused(digits, trained):
    other = networks.build("F-13", digits.shape, 10).state_dict()
    with pytest.raises(CurvboundError, match="initialisation belongs to another architecture"):
        cb.certify(trained[0], digits, init=other)


def test_a_network_without_the_list_and_in_double_precision(digits):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    data = datasets.Examples(digits.inputs.double(), digits.targets, classes=10)
    fit(model, data)
    cert = cb.certify(model, data, init=start, budget="quick")
    assert cert.record.network is None
    assert 0 < cert.record.agreement <= 1
    assert cert.posterior.mean["1.weight"].dtype == torch.float64


def test_progress_is_told(digits):
    said = []
    model = networks.build("F-8", digits.shape, 10, seed=1)
    cb.certify(model, digits, train=lambda n, d: None, budget="quick", progress=said.append)
    assert any("prior" in sentence for sentence in said)
    assert said[-1].startswith("measuring")
