import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from curvbound.training.batches import make_batches
from curvbound.training.loop import Loop, forked_generators
from curvbound.training.recipes import Recipe

LABELS = torch.tensor([0, 1, 2, 1, 0, 2, 2, 1])


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 4, dtype=torch.float64, generator=generator), LABELS


def make_loop(model, recipe, seed=0):
    batches = make_batches(
        data(),
        batch_size=recipe.batch_size,
        augmentation=None,
        device=torch.device("cpu"),
        dtype=torch.float64,
    )
    return Loop(model, batches, recipe, seed)


def run(loop, epochs=1):
    with forked_generators(torch.device("cpu")):
        for _ in range(epochs):
            loop.run_epoch(lambda: None)
            loop.end_epoch(0.0, None)


def softmax_gradient(weight, smoothing=0.0):
    """Gradient of the mean cross-entropy of softmax regression: (p - t)^T x / n."""
    inputs, targets = data()
    wanted = functional.one_hot(targets, 3).double() * (1 - smoothing) + smoothing / 3
    return (torch.softmax(inputs @ weight.T, 1) - wanted).T @ inputs / len(inputs)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("nesterov", [False, True])
def test_three_full_batch_steps_are_those_of_the_formula(smoothing, decay, nesterov):
    model = nn.Linear(4, 3, bias=False).double()
    weight = model.weight.detach().clone()
    recipe = Recipe(
        lr=0.3,
        momentum=0.9,
        nesterov=nesterov,
        weight_decay=decay,
        label_smoothing=smoothing,
        batch_size=8,
        epochs=3,
    )
    run(make_loop(model, recipe), epochs=3)
    velocity = torch.zeros_like(weight)
    for _ in range(3):
        gradient = softmax_gradient(weight, smoothing) + decay * weight
        velocity = 0.9 * velocity + gradient
        weight = weight - 0.3 * (gradient + 0.9 * velocity if nesterov else velocity)
    torch.testing.assert_close(model.weight.detach(), weight, rtol=1e-12, atol=1e-14)


def test_the_schedule_scales_each_step():
    model = nn.Linear(4, 3, bias=False).double()
    weight = model.weight.detach().clone()
    recipe = Recipe(lr=0.3, batch_size=8, epochs=2, schedule=lambda progress: 1 - progress)
    run(make_loop(model, recipe), epochs=2)
    for factor in (1.0, 0.5):
        weight = weight - 0.3 * factor * softmax_gradient(weight)
    torch.testing.assert_close(model.weight.detach(), weight, rtol=1e-12, atol=1e-14)


def test_the_history_holds_loss_and_error_before_each_step():
    model = nn.Linear(4, 3, bias=False).double()
    inputs, targets = data()
    logits = model(inputs)
    loop = make_loop(model, Recipe(batch_size=8))
    run(loop)
    assert loop.history[0].loss == pytest.approx(functional.cross_entropy(logits, targets).item())
    assert loop.history[0].error == (logits.argmax(1) != targets).double().mean().item()


def test_unequal_batches_are_weighted_by_their_size():
    model = nn.Linear(4, 3, bias=False).double()
    inputs, targets = data()
    expected = functional.cross_entropy(model(inputs), targets).item()
    loop = make_loop(model, Recipe(batch_size=3, lr=1e-14))
    run(loop)
    assert loop.history[0].loss == pytest.approx(expected, rel=1e-10)


def test_an_optimiser_that_evaluates_repeatedly_gets_its_closure():
    model = nn.Linear(4, 3).double()
    loop = make_loop(model, Recipe(optimizer="lbfgs", lr=1.0, batch_size=8))
    run(loop, epochs=4)
    assert loop.history[-1].loss < 0.2 * loop.history[0].loss


def test_a_loop_that_is_loaded_goes_on_bit_for_bit():
    def model():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
        return net.double()

    recipe = Recipe(optimizer="adam", batch_size=2, epochs=2, schedule="one-cycle")
    with torch.random.fork_rng():
        whole = make_loop(model(), recipe)
        states = []
        with forked_generators(torch.device("cpu")):
            whole.run_epoch(lambda: states.append(copy.deepcopy(whole.state())))
        whole.end_epoch(0.0, None)
        run(whole)
        for state in states:
            part = make_loop(model(), recipe)
            part.load(state)
            run(part, 2)
            assert part.history == whole.history
            for name, value in whole.model.state_dict().items():
                assert torch.equal(value, part.model.state_dict()[name])


def test_divergence_names_the_first_bad_step():
    model = nn.Linear(4, 3).double()
    loop = make_loop(model, Recipe(batch_size=2, lr=1e200, momentum=0.9, weight_decay=1.0))
    assert loop.diverged_at() is None
    with forked_generators(torch.device("cpu")):
        loop.run_epoch(lambda: None)
    assert loop.diverged_at() is not None
    assert loop.diverged_at() > 0
