import pytest
import torch

import curvbound as cb
from curvbound import CurvboundError
from curvbound.certificates.issue import Request


def test_unknown_budgets_are_refused():
    with pytest.raises(CurvboundError, match="choose quick, standard or thorough"):
        Request("diagonal", 0.05, False, "slow", 0, 0.0, print)


def test_a_record_tells_how_it_came_about(by_init, digits):
    record = by_init.record
    assert record.settings["budget"] == "quick"
    assert record.settings["seed"] == 0
    assert record.settings["beta"] > 0
    assert record.data.name == digits.name
    assert record.seconds > 0
    assert set(record.kl_layers) == set(record.union.indices) == {"fc1", "fc2"}
    assert record.monte_carlo.methods == {"fc1": "local", "fc2": "local"}
    assert any("without looking at the data" in item for item in record.assumptions)


def test_agreement_is_counted_and_a_moved_mean_is_told(by_init, digits, trained):
    with torch.no_grad():
        ours = torch.func.functional_call(trained[0], by_init.posterior.mean, (digits.inputs,))
        same = (ours.argmax(1) == trained[0](digits.inputs).argmax(1)).double().mean()
    assert by_init.record.agreement == pytest.approx(float(same))
    assert by_init.record.mean_moved


def test_more_budget_is_never_much_worse(digits, trained, by_init):
    model, start = trained
    longer = cb.certify(model, digits, init=start, budget="standard")
    assert longer.bound <= by_init.bound + 0.02
