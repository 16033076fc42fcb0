import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from curvbound.errors import CurvboundError
from curvbound.training import evaluate


def data(count=1300, classes=4):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(count, 5, generator=generator),
        torch.randint(classes, (count,), generator=generator),
    )


def test_it_is_the_mean_over_all_examples_however_they_come():
    model = nn.Linear(5, 4).double()
    inputs, targets = data()
    logits = model(inputs.double())
    loss, error = evaluate(model, (inputs, targets))
    assert loss == pytest.approx(functional.cross_entropy(logits, targets).item(), rel=1e-12)
    assert error == (logits.argmax(1) != targets).sum().item() / 1300
    streamed = evaluate(model, DataLoader(TensorDataset(inputs, targets), batch_size=7))
    assert streamed == pytest.approx((loss, error), rel=1e-12)


def test_dropout_is_off_and_every_mode_comes_back():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert evaluate(model, data()) == evaluate(model, data())
    assert [module.training for module in model] == [True, False, True]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_modes_come_back_after_an_error_too():
    model = nn.Linear(5, 2)
    with pytest.raises(CurvboundError, match="up to class 3, but the network has 2 outputs"):
        evaluate(model, data())
    assert model.training


def test_hopeless_weights_give_an_infinite_or_nan_loss_not_an_error():
    model = nn.Linear(5, 4)
    nn.init.constant_(model.weight, float("nan"))
    assert math.isnan(evaluate(model, data()).loss)


def test_outputs_that_are_not_logits_are_refused():
    with pytest.raises(CurvboundError, match="one row of logits per example"):
        evaluate(nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), data())


def test_nothing_to_evaluate_on_is_refused():
    with pytest.raises(CurvboundError, match="no examples"):
        evaluate(nn.Linear(5, 4), DataLoader(TensorDataset(*data(3)), batch_size=9, drop_last=True))
    with pytest.raises(CurvboundError, match="no parameters"):
        evaluate(nn.ReLU(), data())
