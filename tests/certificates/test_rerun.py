"""The decision by fresh draws: rarely a false alarm, always an alarm when it matters."""

import numpy as np
import pytest
import torch
from torch import nn

from curvbound import CurvboundError, datasets
from curvbound.certificates.rerun import find_bound_data, recount, same_risk
from curvbound.certificates.verification import Check
from curvbound.gaussians import ErrorCounts


def counts(rng, risk, independent="example", passes=200, examples=1000):
    chunk = 1000 if independent == "example" else 32
    sizes = np.full(-(-examples // chunk), chunk)
    sizes[-1] = examples - chunk * (len(sizes) - 1)
    if independent == "example":
        drawn = rng.binomial(sizes, risk, (passes, len(sizes)))
    else:  # one weight draw per chunk: its errors come together
        rates = rng.beta(4 * risk, 4 * (1 - risk), (passes, len(sizes)))
        drawn = rng.binomial(sizes, rates)
    return ErrorCounts(drawn, examples, chunk, independent, 0)


@pytest.mark.parametrize("independent", ["example", "batch"])
@pytest.mark.parametrize("risk", [0.001, 0.1, 0.5])
def test_two_honest_counts_never_differ(independent, risk):
    rng = np.random.default_rng(0)
    for _ in range(40):
        assert same_risk(counts(rng, risk, independent), counts(rng, risk, independent))


@pytest.mark.parametrize("independent", ["example", "batch"])
def test_a_count_that_was_improved_is_noticed(independent):
    rng = np.random.default_rng(1)
    passes = 200 if independent == "example" else 2000
    for _ in range(15):
        stored = counts(rng, 0.27, independent, passes)
        assert not same_risk(stored, counts(rng, 0.3, independent, passes))
    zero = ErrorCounts(np.zeros((200, 1), dtype=np.int64), 1000, 1000, "example", 0)
    assert not same_risk(zero, counts(rng, 0.001))


class Scores(nn.Module):
    """Gives its input times one; the labels decide what is an error."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.one * x


def test_nearly_tied_scores_may_fall_either_way():
    inputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0 - 1e-7], [5.0, 0.0]])
    data = datasets.Examples(inputs, torch.zeros(4, dtype=torch.int64), classes=2)
    assert recount("errors", Scores(), data, 1) == "1 errors on 4 examples, as stated"
    noted = recount("errors", Scores(), data, 2)
    assert isinstance(noted, Check)
    assert noted.status == "noted"
    for stated in (0, 3):
        with pytest.raises(CurvboundError, match=f"{stated} errors are stated but 1 were counted"):
            recount("errors", Scores(), data, stated)


def test_the_bound_data_are_found_by_their_hash(by_init, by_split, by_heldout, digits):
    assert find_bound_data(digits, by_init.record) == (digits, None)
    assert find_bound_data(tuple(digits), by_init.record)[0].hash == digits.hash
    bound, prior = find_bound_data(digits, by_split.record)
    assert (len(bound), len(prior)) == (200, 200)
    whole = datasets.load("digits")
    with pytest.raises(CurvboundError, match="are not the 400 examples of 10 classes"):
        find_bound_data(whole, by_init.record)
