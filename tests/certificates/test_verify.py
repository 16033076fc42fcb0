"""Verification: a correct certificate passes, and whatever is changed in it is named."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import curvbound as cb
from curvbound import CurvboundError, datasets, networks
from curvbound.bounds import clopper_pearson, error_rate, pac_bayes_kl, single_draw_kl
from curvbound.certificates import Certificate, claims
from curvbound.certificates.claims import (
    CONSTANT,
    content_seed,
    counted,
    drawn_weights,
    looseness,
)
from curvbound.certificates.storage import read_certificate
from curvbound.certificates.verify import verify

RERUN = ["Monte Carlo repeated", "Monte Carlo with fresh draws", "errors of the drawn network"]


def failed(path, **options):
    return {check.name for check in verify(path, **options).failed}


def status(found):
    return {check.name: check.status for check in found.checks}


@pytest.fixture
def saved(by_init, tmp_path):
    return by_init.save(tmp_path / "cert.json")


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_tensor(path, name, *, rehash=()):
    """Change one number of one tensor, then the hashes a forger would think of."""
    beside = path.with_suffix(".safetensors")
    tensors = load_file(beside)
    tensors[name] = tensors[name].clone()
    tensors[name].view(-1)[0] *= 1.01
    save_file(tensors, beside)
    if not rehash:
        return
    content = json.loads(path.read_text())
    content["tensors"] = hashlib.sha256(beside.read_bytes()).hexdigest()
    path.write_text(json.dumps(content))
    stored = read_certificate(path)
    if "prior" in rehash:
        content["prior"]["hash"] = stored.prior.hash
    if "posterior" in rehash:
        content["posterior_hash"] = stored.posterior.hash
    path.write_text(json.dumps(content))


def recompute_all(path):
    """What a thorough forger does: everything that follows from tensors, counts and delta."""
    stored = read_certificate(path)
    record, prior, posterior = stored.record, stored.prior, stored.posterior
    n, union = record.data.examples, record.union
    gibbs, drawn, vote = record.claims
    hashes = (prior.hash, posterior.hash, record.data.hash)
    divergence = posterior.kl(prior)
    carlo = record.monte_carlo
    limit = counted(carlo, n).limit(gibbs.delta["Monte Carlo"])
    carlo = carlo.model_copy(update={"limit": limit, "seed": content_seed(*hashes, "Monte Carlo")})
    options = {"constant": CONSTANT, "charge": union.charge}
    bound = pac_bayes_kl(limit, divergence.total, n, gibbs.delta["PAC-Bayes"], **options)
    weights = drawn_weights(posterior, content_seed(*hashes, "one drawn network"))
    ratio = posterior.log_ratio(prior, weights)
    risk = error_rate(record.drawn_errors, n)
    single = single_draw_kl(risk, ratio, n, drawn.delta["one draw"], **options)
    values = {"risk": limit, "nats": divergence.total}
    gibbs = gibbs.model_copy(update={"bound": bound, **values})
    record = record.model_copy(
        update={
            "claims": [
                gibbs,
                drawn.model_copy(update={"bound": single, "risk": risk, "nats": ratio}),
                vote.model_copy(update={"bound": min(1.0, 2 * bound), **values}),
            ],
            "monte_carlo": carlo,
            "kl_layers": dict(divergence.layers),
            "posterior_hash": posterior.hash,
            "prior": record.prior.model_copy(update={"hash": prior.hash}),
            "looseness": looseness(gibbs, carlo, union, divergence.layers, n),
        }
    )
    path.write_text(record.model_dump_json())


def test_a_certificate_passes_without_anything_else(saved):
    found = verify(saved)
    assert found.ok
    assert {n for n, s in status(found).items() if s == "not checked"} == {
        "agreement with the user's network",
        "data",
        "counts",
    }
    assert found["initialisation"].status == "passed"
    assert "seed 3" in found["initialisation"].sentence
    assert any("before anybody looked" in item for item in found.beyond)
    assert any("independent draws" in item for item in found.beyond)


def test_with_the_data_the_counts_are_made_again(saved, digits):
    found = verify(saved, data=digits)
    assert found.ok
    assert [found[name].status for name in RERUN] == ["passed"] * 3
    assert "1,000,000" in found["Monte Carlo with fresh draws"].sentence


def test_a_certificate_in_memory_brings_its_network(by_init, digits):
    found = verify(by_init, data=digits)
    assert found.ok
    assert found["tensors file"].status == "not checked"


def test_a_split_is_found_in_the_whole_data(by_split, digits, tmp_path):
    path = by_split.save(tmp_path / "split.json")
    found = verify(path, data=digits)
    assert found.ok
    for name in [*RERUN, "data", "prior data", "errors behind the hold-out bound"]:
        assert found[name].status == "passed", name


def test_a_holdout_certificate(by_heldout, tmp_path):
    path = by_heldout.save(tmp_path / "held.json")
    held = datasets.load("digits").test.take(range(150))
    assert verify(path).ok
    found = verify(path, data=held)
    assert found.ok
    assert found["errors of the network"].status == "passed"
    assert any("held-out" in item for item in found.beyond)
    edit(path, lambda r: r["holdout"].update(errors=r["holdout"]["errors"] - 1))
    assert failed(path) == {"hold-out bound"}

    def forge(record):
        errors, n = record["holdout"]["errors"], record["holdout"]["examples"]
        bound = clopper_pearson(errors, n, 0.05)
        record["holdout"]["bound"] = record["claims"][0]["bound"] = bound
        record["claims"][0]["risk"] = error_rate(errors, n)

    edit(path, forge)
    assert verify(path).ok  # consistent in itself
    assert failed(path, data=held) == {"errors of the network"}


def test_a_weight_of_a_holdout_network_is_noticed(by_heldout, tmp_path):
    path = by_heldout.save(tmp_path / "held.json")
    edit_tensor(path, "network/fc1.weight")
    assert failed(path) == {"tensors file", "network hash"}
    digest = hashlib.sha256(path.with_suffix(".safetensors").read_bytes()).hexdigest()
    edit(path, lambda r: r.update(tensors=digest))
    assert failed(path) == {"network hash"}


def first_index(union):
    return next(iter(union["indices"]))


def shift_index(record):
    record["union"]["indices"][first_index(record["union"])] += 1


def shift_grid(record):
    for layer in record["union"]["largest"]:
        record["union"]["largest"][layer] *= 2


def cheaper_charge(record):
    name = next(iter(record["union"]["charges"]))
    record["union"]["charges"][name] -= 1e-6


def one_count(record):
    record["monte_carlo"]["counts"][0][0] -= 1


def one_pass_less(record):
    record["monte_carlo"]["counts"].pop()


def one_layer(record):
    name = next(iter(record["kl_layers"]))
    record["kl_layers"][name] -= 1e-4


TAMPERINGS = {
    "bound": (
        lambda r: r["claims"][0].update(bound=r["claims"][0]["bound"] - 1e-9),
        {"bound of the randomised network"},
    ),
    "bound of the drawn network": (
        lambda r: r["claims"][1].update(bound=r["claims"][1]["bound"] - 1e-9),
        {"bound of one drawn network"},
    ),
    "bound of the vote": (
        lambda r: r["claims"][2].update(bound=r["claims"][2]["bound"] - 1e-9),
        {"bound of the majority vote"},
    ),
    "kl": (lambda r: r["claims"][0].update(nats=r["claims"][0]["nats"] - 1e-4), {"KL"}),
    "kl of a layer": (one_layer, {"KL"}),
    "log ratio": (
        lambda r: r["claims"][1].update(nats=r["claims"][1]["nats"] - 1e-4),
        {"density ratio of the drawn network"},
    ),
    "risk": (
        lambda r: r["claims"][0].update(risk=r["claims"][0]["risk"] - 1e-6),
        {"Monte Carlo limit"},
    ),
    "limit": (
        lambda r: r["monte_carlo"].update(limit=r["monte_carlo"]["limit"] - 1e-6),
        {"Monte Carlo limit"},
    ),
    "n": (lambda r: r["data"].update(examples=r["data"]["examples"] + 1), {"Monte Carlo limit"}),
    "delta": (lambda r: r["claims"][0]["delta"].update({"PAC-Bayes": 0.03}), {"delta ledger"}),
    "delta of the draw": (
        lambda r: r["claims"][1]["delta"].update({"one draw": 0.02}),
        {"delta ledger", "bound of one drawn network"},
    ),
    "a hidden event": (
        lambda r: r["claims"][1]["delta"].update({"luck": 0.01}),
        {"delta ledger"},
    ),
    "tried": (lambda r: r["union"].update(tried=r["union"]["tried"] + 4), {"union charges"}),
    "charge": (
        lambda r: r["union"].update(charge=r["union"]["charge"] - 1e-6),
        {"union charges"},
    ),
    "charge of a layer": (cheaper_charge, {"union charges"}),
    "index": (shift_index, {"prior scales", "union charges"}),
    "grid": (shift_grid, {"prior scales", "union charges"}),
    "count": (one_count, {"Monte Carlo limit"}),
    "passes": (one_pass_less, {"Monte Carlo limit"}),
    "chunk": (lambda r: r["monte_carlo"].update(chunk=1001), {"Monte Carlo limit"}),
    "seed": (lambda r: r["monte_carlo"].update(seed=1), {"Monte Carlo seed"}),
    "drawn errors": (
        lambda r: r.update(drawn_errors=r["drawn_errors"] - 1),
        {"bound of one drawn network"},
    ),
    "more errors than examples": (
        lambda r: r.update(drawn_errors=10**6),
        {"bound of one drawn network"},
    ),
    "looseness": (
        lambda r: r["looseness"].update(confidence=r["looseness"]["confidence"] + 1e-6),
        {"looseness"},
    ),
    "prior hash": (lambda r: r["prior"].update(hash="0" * 64), {"prior hash"}),
    "posterior hash": (lambda r: r.update(posterior_hash="0" * 64), {"posterior hash"}),
    "tensors hash": (lambda r: r.update(tensors="0" * 64), {"tensors file"}),
    "data hash": (
        lambda r: r["data"].update(hash="0" * 64),
        {"Monte Carlo seed", "density ratio of the drawn network"},
    ),
    "initial seed": (
        lambda r: r["prior"]["specification"].update(seed=4),
        {"initialisation"},
    ),
    "another network": (
        lambda r: r["prior"]["specification"].update(name="F-13"),
        {"initialisation"},
    ),
    "claim removed": (lambda r: r["claims"].pop(), {"form"}),
    "counts removed": (lambda r: r.update(monte_carlo=None), {"form"}),
    "mean": (lambda r: r.update(mean_moved=False), {"mean"}),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_caught_and_named(saved, name):
    change, expected = TAMPERINGS[name]
    assert failed(saved) == set()
    edit(saved, change)
    assert failed(saved) >= expected


@pytest.mark.parametrize(
    ("tensor", "hashes", "expected"),
    [
        ("prior/mean/fc1.weight", (), {"tensors file", "prior hash"}),
        ("prior/mean/fc1.weight", ("file",), {"prior hash"}),
        ("prior/mean/fc1.weight", ("file", "prior"), {"KL", "Monte Carlo seed", "initialisation"}),
        ("prior/variance/fc1", ("file", "prior"), {"prior scales"}),
        ("posterior/mean/fc2.bias", (), {"tensors file", "posterior hash"}),
        ("posterior/mean/fc2.bias", ("file",), {"posterior hash"}),
        ("posterior/mean/fc2.bias", ("file", "posterior"), {"KL", "Monte Carlo seed"}),
        ("posterior/variance/fc1", ("file", "posterior"), {"KL", "Monte Carlo seed"}),
    ],
)
def test_one_changed_weight_is_caught_and_named(saved, tensor, hashes, expected):
    edit_tensor(saved, tensor, rehash=hashes)
    assert failed(saved) >= expected


def test_a_prior_that_was_moved_is_not_what_its_seed_draws(saved):
    edit_tensor(saved, "prior/mean/fc1.weight", rehash=("file", "prior"))
    recompute_all(saved)
    assert failed(saved) == {"initialisation"}


def test_forged_counts_are_caught_by_the_fresh_draws(saved, digits):
    def fewer(record):
        carlo = record["monte_carlo"]
        carlo["counts"] = [[round(0.8 * count) for count in row] for row in carlo["counts"]]

    edit(saved, fewer)
    recompute_all(saved)
    assert verify(saved).ok  # everything follows from the counts
    found = verify(saved, data=digits)
    assert {check.name for check in found.failed} == {"Monte Carlo with fresh draws"}
    assert found["Monte Carlo repeated"].status == "noted"


def test_a_count_that_another_machine_might_find_is_noted_and_not_fatal(saved, digits):
    edit(saved, one_count)
    recompute_all(saved)
    found = verify(saved, data=digits)
    assert found.ok
    assert found["Monte Carlo repeated"].status == "noted"


def test_forged_errors_of_the_drawn_network_are_recounted(saved, digits):
    edit(saved, lambda r: r.update(drawn_errors=r["drawn_errors"] // 2))
    recompute_all(saved)
    assert verify(saved).ok
    assert failed(saved, data=digits) == {"errors of the drawn network"}


def test_forged_errors_of_the_prior_network_are_recounted(by_split, digits, tmp_path):
    path = by_split.save(tmp_path / "split.json")

    def forge(record):
        held = record["holdout"]
        held["errors"] //= 2
        held["bound"] = clopper_pearson(held["errors"], held["examples"], held["delta"])

    edit(path, forge)
    assert verify(path).ok
    assert failed(path, data=digits) == {"errors behind the hold-out bound"}


def test_a_grid_that_does_not_follow_from_the_prior_data_is_caught(by_split, digits, tmp_path):
    path = by_split.save(tmp_path / "split.json")
    edit(path, shift_grid)
    assert failed(path) >= {"prior scales"}
    assert "prior data" in failed(path, data=digits)


def test_other_data_fail(saved, digits):
    other = digits.random_labels(seed=1)
    found = verify(saved, data=other)
    assert {check.name for check in found.failed} == {"data"}
    assert found["counts"].status == "not checked"
    assert failed(saved, data=digits.take(range(100))) == {"data"}


def test_a_network_from_elsewhere_must_be_given(digits, tmp_path, trained):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    start = {name: 0.9 * tensor for name, tensor in model.state_dict().items()}
    path = cb.certify(model, digits, init=start, budget="quick").save(tmp_path / "own.json")
    found = verify(path, data=digits)
    assert found["counts"].status == "not checked"
    assert found["initialisation"].status == "not checked"
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    assert verify(path, data=digits, model=other)[RERUN[1]].status == "passed"
    with pytest.raises(CurvboundError, match="other trainable parameters"):
        verify(path, data=digits, model=nn.Sequential(nn.Flatten(), nn.Linear(64, 11)))


def test_code_that_reads_the_weights_otherwise_fails(saved, digits):
    """The same parameters in another network: the predictions are not those certified."""

    class Negated(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 12), nn.Linear(12, 10)

        def forward(self, x):
            return -self.fc2(self.fc1(x.flatten(1)).relu())

    wrong = failed(saved, data=digits, model=Negated())
    assert wrong == {"Monte Carlo with fresh draws", "errors of the drawn network"}


def test_a_draw_per_batch_is_repeated_as_such(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "OBSERVATIONS", 10_000)

    class Twice(nn.Module):
        """The weight is used outside of its layer, so that examples must share a draw."""

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            return x.flatten(1) @ self.fc.weight.T + self.fc.bias

    data = digits.take(range(96))
    model = Twice()
    start = {name: 0.9 * tensor for name, tensor in model.state_dict().items()}
    cert = cb.certify(model, data, init=start, budget="quick", posterior="diagonal")
    assert cert.record.monte_carlo.independent == "batch"
    path = cert.save(tmp_path / "batch.json")
    found = verify(path, data=data, model=Twice())
    assert found.ok
    assert found["Monte Carlo repeated"].status == "passed"
    edit(path, lambda r: r["monte_carlo"].update(independent="example", chunk=1000))
    assert not verify(path, data=data, model=Twice()).ok


def test_code_named_in_the_file_is_never_imported(saved, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    edit(saved, lambda r: r.update(network={"name": "evil_module:build"}))
    with pytest.raises(CurvboundError, match="arguments that no network of"):
        verify(saved)


def test_verification_leaves_network_and_random_state_alone(by_init, digits):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    model = networks.build("F-12", digits.shape, 10, seed=9)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    verify(
        Certificate(by_init.record, prior=by_init.prior, posterior=by_init.posterior),
        model=model,
        data=digits,
    )
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
