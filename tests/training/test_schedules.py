import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.training import train
from curvbound.training.schedules import SCHEDULES, drops, make_scheduler, resolve_schedule


@pytest.mark.parametrize("name", SCHEDULES)
@given(progress=st.floats(0, 1, exclude_max=True))
def test_named_schedules_stay_between_nothing_and_the_initial_rate(name, progress):
    assert 0.0 <= SCHEDULES[name](progress) <= 1.0


def test_linear_tail_is_that_of_004():
    tail = SCHEDULES["linear-tail"]
    assert [tail(p) for p in (0.0, 0.3, 0.5)] == [1.0, 1.0, 1.0]
    assert tail(0.7) == pytest.approx((1 + 0.01) / 2)
    assert tail(0.9) == pytest.approx(0.01)
    assert tail(0.95) == tail(0.999) == 0.01


def test_one_cycle_peaks_after_a_fifth_and_ends_near_zero():
    cycle = SCHEDULES["one-cycle"]
    assert cycle(0.0) == pytest.approx(0.04)
    assert cycle(0.2) == 1.0
    assert cycle(0.6) == pytest.approx(0.5)
    assert cycle(1.0) == pytest.approx(0.0, abs=1e-12)


@given(steps=st.integers(1, 500), epochs=st.sampled_from([20, 200, 300, 164]))
def test_drops_happen_at_the_first_step_of_the_epoch(steps, epochs):
    schedule = drops((0.5, 0.75), 0.1)
    for fraction, before, after in ((0.5, 1.0, 0.1), (0.75, 0.1, 0.01)):
        step = math.ceil(epochs * fraction) * steps
        assert schedule((step - 1) / (epochs * steps)) == pytest.approx(before)
        assert schedule(step / (epochs * steps)) == pytest.approx(after)


def test_an_unknown_schedule_is_refused_with_a_suggestion():
    with pytest.raises(CurvboundError, match="did you mean 'cosine'"):
        resolve_schedule("cosin")


def test_a_scheduler_that_needs_a_measurement_is_refused():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    with pytest.raises(CurvboundError, match="ReduceLROnPlateau"):
        make_scheduler(torch.optim.lr_scheduler.ReduceLROnPlateau, optimizer)


def test_torch_schedulers_are_stepped_once_an_epoch():
    data = (torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]))
    halving = functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5)
    result = train(nn.Linear(3, 2), data, "001", epochs=3, lr=0.4, batch_size=2, schedule=halving)
    assert [log.lr for log in result.history] == pytest.approx([0.4, 0.2, 0.1])


def test_a_function_of_progress_is_asked_at_every_step():
    asked = []

    def schedule(progress):
        asked.append(progress)
        return 1.0

    data = (torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]))
    train(nn.Linear(3, 2), data, "001", epochs=2, batch_size=2, schedule=schedule)
    assert asked == [step / 6 for step in range(6)]


@pytest.mark.parametrize("factor", [math.nan, -0.1, math.inf])
def test_a_senseless_factor_is_refused(factor):
    data = (torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(CurvboundError, match="factor"):
        train(nn.Linear(3, 2), data, "001", epochs=1, batch_size=2, schedule=lambda p: factor)
