"""Files that are not what they seem: one clear sentence, and nothing is run or written."""

import json
import pickle
import struct

import pytest
import torch
from torch import nn

from curvbound import CurvboundError
from curvbound.certificates import Certificate
from curvbound.certificates.storage import read_certificate, state_hash, write_certificate


@pytest.fixture
def saved(by_init, tmp_path):
    return by_init.save(tmp_path / "cert.json")


def load(path):
    """Both readers must refuse, with one sentence."""
    from curvbound.certificates.verify import verify

    with pytest.raises(CurvboundError) as caught:
        verify(path)
    with pytest.raises(CurvboundError):
        Certificate.load(path)
    message = str(caught.value)
    assert "\n" not in message.rstrip(".").split(": ")[0]
    return message


def edited(path, **changes):
    content = json.loads(path.read_text())
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = content
        for parent in parents:
            place = place[int(parent) if parent.isdigit() else parent]
        place[last] = value
    path.write_text(json.dumps(content))


def test_what_is_written_is_read_back(saved, by_init):
    stored = read_certificate(saved)
    assert stored.intact
    assert stored.prior.hash == by_init.prior.hash
    assert stored.posterior.hash == by_init.posterior.hash
    again = write_certificate(
        saved.with_name("again.json"), stored.record, stored.prior, stored.posterior
    )
    assert again.read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in saved.parent.iterdir()) == [
        "again.json",
        "again.safetensors",
        "cert.json",
        "cert.safetensors",
    ]


def test_other_suffixes_are_refused_and_nothing_is_written(by_init, tmp_path):
    with pytest.raises(CurvboundError, match=r"is a \.json file; 'cert\.txt' is not"):
        by_init.save(tmp_path / "new" / "cert.txt")
    assert list(tmp_path.iterdir()) == []


class Evil:
    def __reduce__(self):
        return (open, ("/dev/null",))


def header(size, content=b"{}"):
    return struct.pack("<Q", size) + content


BAD_TENSORS = {
    "pickle": pickle.dumps({"weight": [1.0]}),
    "malicious pickle": pickle.dumps(Evil()),
    "empty": b"",
    "text": b"no tensors here",
    "huge header": header(2**63 - 1),
    "header beyond the file": header(10_000),
    "header is no JSON": header(4, b"oops"),
    "NUL": b"\0" * 64,
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors_that_are_none_are_refused(saved, name):
    saved.with_suffix(".safetensors").write_bytes(BAD_TENSORS[name])
    assert "safetensors" in load(saved)


def test_truncated_or_missing_tensors_are_refused(saved):
    beside = saved.with_suffix(".safetensors")
    beside.write_bytes(beside.read_bytes()[:-10])
    assert "is not a safetensors file" in load(saved)
    beside.unlink()
    assert "cannot be read: No such file" in load(saved)


def change_tensors(path, change):
    from safetensors.torch import load_file, save_file

    beside = path.with_suffix(".safetensors")
    tensors = load_file(beside)
    change(tensors)
    save_file(tensors, beside)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["prior/mean/fc1.weight"].fill_(torch.nan), "NaN or infinite"),
        (lambda t: t["posterior/mean/fc1.bias"].fill_(torch.inf), "NaN or infinite"),
        (lambda t: t["posterior/variance/fc1"].neg_(), "must be positive"),
        (lambda t: t["posterior/variance/fc1"].zero_(), "must be positive"),
        (lambda t: t.pop("prior/mean/fc1.weight"), "lacks the mean of 'fc1.weight'"),
        (lambda t: t.pop("posterior/variance/fc2"), "no variance for block 'fc2'"),
        (lambda t: t["posterior/left/fc1"].mul_(3), "is not orthogonal"),
        (lambda t: t.update({"prior/variance/fc9": torch.ones(1, 1)}), "no block 'fc9'"),
        (lambda t: t.update({"prior/variance/fc1": torch.ones(3, 7)}), "must have"),
        (
            lambda t: t.update({"prior/mean/fc1.bias": torch.zeros(12, dtype=torch.int64)}),
            "floating-point",
        ),
    ],
)
def test_tensors_that_define_no_gaussian_are_refused(saved, change, message):
    change_tensors(saved, change)
    assert message in load(saved)


@pytest.mark.parametrize(
    "content", ["", "[]", "3", "{", "null", '{"format": 1}', "\x00", "[" * 9999]
)
def test_what_is_no_certificate_is_refused(tmp_path, content):
    path = tmp_path / "cert.json"
    path.write_text(content)
    assert "is not a certificate of this format" in load(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "cert.json"
    path.write_bytes(b"\xff\xfe{}")
    assert "is not a certificate" in load(path)


def test_missing_files_and_folders_are_refused(tmp_path):
    assert "cannot be read: No such file" in load(tmp_path / "none.json")
    assert "cannot be read" in load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"claims": []}, "claims"),
        ({"claims__0__bound": "0.1"}, "claims.0.bound"),
        ({"claims__0__bound": float("nan")}, "claims.0.bound"),
        ({"claims__0__bound": -0.1}, "claims.0.bound"),
        ({"claims__0__bound": 1.5}, "claims.0.bound"),
        ({"claims__0__risk": float("inf")}, "claims.0.risk"),
        ({"claims__0__delta": {"PAC-Bayes": -0.3, "Monte Carlo": 0.01}}, "claims.0.delta"),
        ({"claims__0__delta": {}}, "claims.0.delta"),
        ({"claims__0__about": "the mean network"}, "claims.0.about"),
        ({"kind": "heuristic"}, "kind"),
        ({"format": "curvbound-certificate/9"}, "format"),
        ({"data__examples": 0}, "data.examples"),
        ({"data__examples": 400.5}, "data.examples"),
        ({"data__examples": 10**30}, "data.examples"),
        ({"data__classes": 1}, "data.classes"),
        ({"union__tried": 0}, "union.tried"),
        ({"union__tried": True}, "union.tried"),
        ({"union__charge": -1.0}, "union.charge"),
        ({"monte_carlo__counts": [[1], [1, 2]]}, "monte_carlo"),
        ({"monte_carlo__counts": []}, "monte_carlo"),
        ({"monte_carlo__counts": [[]]}, "monte_carlo"),
        ({"monte_carlo__counts": [[-1]]}, "monte_carlo"),
        ({"monte_carlo__counts": [[10**40]]}, "monte_carlo"),
        ({"monte_carlo__chunk": 0}, "monte_carlo.chunk"),
        ({"unknown": 1}, "unknown"),
        ({"assumptions": None}, "assumptions"),
    ],
)
def test_wrong_types_and_values_are_refused(saved, changes, where):
    edited(saved, **changes)
    assert f"of this format: {where}" in load(saved)


@pytest.mark.parametrize(
    "network",
    [
        {"name": "evil:build"},
        {"name": "F-12"},
        {"name": 3, "input_shape": [1, 8, 8], "classes": 10, "init": "torch", "seed": 0},
        {"name": "F-12", "input_shape": "abc", "classes": 10, "init": "torch", "seed": 0},
        {"name": "F-12", "input_shape": [64], "classes": "10", "init": "torch", "seed": 0},
        {"name": "F-12", "input_shape": [64], "classes": 10, "init": "os.system", "seed": 0},
        {"name": "F-12", "input_shape": [64], "classes": 10, "init": "torch", "seed": -1},
        {"name": "F-12", "input_shape": [64], "classes": 11, "init": "torch", "seed": 0},
        {"name": "F-9999999^9", "input_shape": [64], "classes": 10, "init": "torch", "seed": 0},
    ],
)
def test_networks_that_do_not_exist_are_refused(saved, network):
    edited(saved, network=network)
    assert load(saved)


def test_distributions_of_another_kind_are_refused(saved):
    edited(saved, distributions__prior={"kind": "code", "parameters": []})
    assert "unknown kind" in load(saved)
    edited(saved, distributions={})
    assert "unknown kind" in load(saved)


def test_a_prior_without_tensors_is_refused(saved):
    edited(saved, tensors=None)
    assert "no tensors" in load(saved)


def test_another_file_is_not_loaded_but_can_be_looked_at(saved):
    change_tensors(saved, lambda t: t["prior/mean/fc1.weight"].mul_(1.0001))
    with pytest.raises(CurvboundError, match="not the file this certificate was issued with"):
        Certificate.load(saved)
    assert not read_certificate(saved).intact


def test_the_hash_of_a_state_sees_names_shapes_and_values():
    state = nn.Linear(2, 3).state_dict()
    assert state_hash(state) == state_hash(dict(reversed(state.items())))
    for other in (
        {**state, "bias": state["bias"] + 1},
        {"weight": state["weight"]},
        {**state, "weight": state["weight"].T.contiguous()},
        {**state, "bias": state["bias"].double()},
    ):
        assert state_hash(other) != state_hash(state)
