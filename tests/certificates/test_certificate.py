"""A certificate that is saved comes back whole, and so does the predictor it is about."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

import curvbound as cb
from curvbound import CurvboundError, datasets, networks
from curvbound.certificates import Certificate
from curvbound.certificates.claims import mistakes
from curvbound.certificates.record import Record
from oracles.training import fit


@pytest.mark.parametrize("route", ["by_init", "by_split", "by_heldout"])
def test_a_saved_certificate_comes_back(request, route, tmp_path):
    cert = request.getfixturevalue(route)
    again = Certificate.load(cert.save(tmp_path / "deep" / "cert.json"))
    ignored = {"tensors", "distributions"}
    assert again.record.model_dump(exclude=ignored) == cert.record.model_dump(exclude=ignored)
    assert str(again) == str(cert)
    assert again.sentence in str(again)
    assert (again.bound, again.kl, again.n) == (cert.bound, cert.kl, cert.n)
    if cert.posterior is not None:
        assert again.posterior.hash == cert.posterior.hash
        assert again.prior.hash == cert.prior.hash


def test_the_file_follows_the_published_schema(by_init, tmp_path):
    content = json.loads(by_init.save(tmp_path / "cert.json").read_text())
    assert content["format"] == "curvbound-certificate/1"
    schema = Record.model_json_schema()
    assert set(content) <= set(schema["properties"])
    assert "the main one" in schema["description"]


def test_the_drawn_network_has_the_errors_that_are_stated(by_init, digits, tmp_path):
    loaded = Certificate.load(by_init.save(tmp_path / "cert.json"))
    networks_drawn = [cert.network("drawn") for cert in (by_init, loaded)]
    for network in networks_drawn:
        assert mistakes(network, digits) == by_init.record.drawn_errors
        assert not network.training
    with torch.no_grad():
        assert torch.equal(*(network(digits.inputs) for network in networks_drawn))


def test_the_randomised_network_has_the_error_rate_that_is_stated(by_init, digits, tmp_path):
    network = Certificate.load(by_init.save(tmp_path / "cert.json")).network()
    rates = [mistakes(network, digits) / len(digits) for _ in range(200)]
    room = 6 * np.std(rates) / 200**0.5
    assert np.mean(rates) == pytest.approx(by_init.empirical_risk, abs=room)


def test_the_network_of_a_hold_out_certificate_comes_back(by_heldout, trained, digits, tmp_path):
    loaded = Certificate.load(by_heldout.save(tmp_path / "held.json"))
    network = loaded.network()
    with torch.no_grad():
        assert torch.equal(network(digits.inputs), trained[0](digits.inputs))


def test_a_network_from_elsewhere_must_be_given(digits, tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    start = copy.deepcopy(model.state_dict())
    fit(model, digits)
    held = datasets.load("digits").test.take(range(50))
    for options in ({"init": start}, {"heldout": held}):
        cert = cb.certify(model, digits, budget="quick", **options)
        path = cert.save(tmp_path / "own.json")
        with pytest.raises(CurvboundError, match=r"Certificate\.load\(path, model="):
            Certificate.load(path).network()
        twin = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        loaded = Certificate.load(path, model=twin)
        with torch.no_grad():
            if cert.posterior is None:
                assert torch.equal(loaded.network()(held.inputs), model(held.inputs))
            else:
                drawn = loaded.network("drawn"), cert.network("drawn")
                assert torch.equal(*(network(held.inputs) for network in drawn))
        wrong = nn.Sequential(nn.Flatten(), nn.Linear(64, 9))
        with pytest.raises(CurvboundError, match="the architecture the certificate was issued for"):
            Certificate.load(path, model=wrong)


def test_batch_norm_survives_the_round_trip(digits, tmp_path):
    model = networks.build("F-8-BN", digits.shape, 10, seed=0)
    start = copy.deepcopy(model.state_dict())
    fit(model, digits)
    cert = cb.certify(model, digits, init=start, budget="quick")
    loaded = Certificate.load(cert.save(tmp_path / "norm.json"))
    assert mistakes(loaded.network("drawn"), digits) == cert.record.drawn_errors
    held = datasets.load("digits").test.take(range(60))
    cert = cb.certify(model, digits, heldout=held)
    network = Certificate.load(cert.save(tmp_path / "held.json")).network()
    with torch.no_grad():
        assert torch.equal(network(held.inputs), model(held.inputs))


def test_networks_are_copies(by_heldout, by_init):
    for cert in (by_heldout, by_init):
        network = cert.network()
        with torch.no_grad():
            for tensor in network.parameters():
                tensor.zero_()
        assert any(bool(t.any()) for t in cert.network().parameters())


def test_a_certificate_cannot_be_changed(by_init):
    with pytest.raises(AttributeError):
        by_init.bound = 0.0
    with pytest.raises(ValueError, match="frozen"):
        by_init.record.claims[0].bound = 0.0
    by_init.delta["Monte Carlo"] = 0.0
    assert by_init.delta["Monte Carlo"] == 0.01


def test_the_sentence_rounds_the_bound_up_and_the_confidence_down(by_init):
    claim = by_init.claim.model_copy(
        update={"bound": 0.12340001, "delta": {"PAC-Bayes": 1e-7, "Monte Carlo": 3e-8}}
    )
    cert = Certificate(by_init.record.model_copy(update={"claims": [claim]}))
    assert "at most 0.1235" in cert.sentence
    assert "With confidence 99.999987 %" in cert.sentence
    assert cert.confidence <= 1 - 1.3e-7


def test_it_shows_in_a_notebook_and_in_short(by_init):
    assert by_init._repr_html_().startswith("<pre>With confidence 95 %")
    assert repr(by_init).startswith("<Certificate: With confidence")


def test_chance_and_vacuity(by_split, by_init):
    assert by_split.chance == 0.9
    assert by_split.vacuous == (by_split.bound >= 0.9)
    worst = by_init.claim.model_copy(update={"bound": 0.95})
    cert = Certificate(by_init.record.model_copy(update={"claims": [worst]}))
    assert cert.vacuous
    assert "not below chance" in str(cert)
