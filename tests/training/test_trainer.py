import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from curvbound import datasets, networks
from curvbound.errors import CurvboundError
from curvbound.training import Recipe, evaluate, train


def blobs(count=144, classes=3):
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(count) % classes
    centres = 3 * torch.randn(classes, 4, generator=generator)
    return centres[targets] + torch.randn(count, 4, generator=generator), targets


def network():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_seed_decides_everything_whatever_the_global_generator():
    torch.manual_seed(5)
    first = train(network(), blobs(), "fast", epochs=2, seed=7)
    torch.rand(13)
    second = train(network(), blobs(), "fast", epochs=2, seed=7)
    other = train(network(), blobs(), "fast", epochs=2, seed=8)
    assert same(weights(first.model), weights(second.model))
    assert not same(weights(first.model), weights(other.model))


def test_the_callers_random_state_modes_and_threads_are_left_alone():
    model = network()
    model[2].eval()
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    train(model, blobs(), "fast", epochs=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model] == [True, True, False, True]
    assert torch.get_num_threads() == threads
    assert all(parameter.grad is None for parameter in model.parameters())


def test_numbers_are_those_of_the_final_weights():
    test = blobs(30)
    result = train(network(), blobs(), "fast", epochs=3, test=test)
    assert evaluate(result.model, blobs()) == (result.train_loss, result.train_error)
    assert evaluate(result.model, test) == (result.test_loss, result.test_error)
    assert [log.epoch for log in result.history] == [1, 2, 3]
    assert result.history[-1].test_error == result.test_error
    assert result.history[-1].loss < result.history[0].loss


def test_later_changes_of_the_network_do_not_change_the_result():
    result = train(network(), blobs(), "fast", epochs=2)
    with torch.no_grad():
        result.model[3].weight.zero_()
    changed = weights(result.model)
    assert result.train_error < 0.3 < evaluate(result.model, blobs()).error
    assert same(weights(result.model), changed)
    result.model.load_state_dict(result.final)
    assert evaluate(result.model, blobs()) == (result.train_loss, result.train_error)


def test_the_initial_weights_are_kept():
    before = weights(network())
    result = train(network(), blobs(), "fast", epochs=1)
    assert same(result.init, before)
    assert not same(weights(result.model), before)


def test_without_test_data_there_is_no_test_error():
    result = train(network(), blobs(), "fast", epochs=1)
    assert result.test_loss is None
    assert result.test_error is None
    assert result.history[0].test_error is None


def test_stopping_at_an_error_that_the_final_weights_have():
    result = train(network(), blobs(), "000", lr=0.05, batch_size=16)
    assert result.train_error == 0.0
    assert result.epochs == len(result.history) < 1000
    longer = train(network(), blobs(), "000", lr=0.05, batch_size=16, epochs=result.epochs)
    assert same(weights(longer.model), weights(result.model))
    if result.epochs > 1:
        shorter = train(network(), blobs(), "000", lr=0.05, batch_size=16, epochs=result.epochs - 1)
        assert shorter.train_error > 0.0


def test_a_data_set_brings_its_own_test_part():
    data = datasets.load("digits")
    model = networks.build("F-20", data.shape, data.classes)
    result = train(model, data, "fast", epochs=2)
    assert result.test_error == evaluate(model, data.test).error
    assert result.test_error < 0.5


def test_loaders_are_accepted():
    loader = DataLoader(TensorDataset(*blobs()), batch_size=16, shuffle=True)
    first = train(network(), loader, "fast", epochs=2, test=loader)
    second = train(network(), loader, "fast", epochs=2)
    assert same(weights(first.model), weights(second.model))
    assert first.test_error == first.train_error


def test_the_models_precision_decides():
    model = network().double()
    train(model, blobs(), "fast", epochs=1)
    assert model[0].weight.dtype == torch.float64


def test_whole_number_inputs_are_left_as_they_are():
    tokens, targets = torch.arange(64).reshape(32, 2) % 5, torch.arange(32) % 2
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2))
    assert train(model, (tokens, targets), "fast", epochs=1, batch_size=8).epochs == 1


def test_frozen_layers_stay_as_they_are():
    model = network()
    model[0].requires_grad_(False)
    before = weights(model[0])
    train(model, blobs(), "001-momentum", epochs=2)
    assert same(weights(model[0]), before)


def test_a_recipe_of_ones_own():
    recipe = Recipe(name="mine", optimizer=torch.optim.RMSprop, lr=0.01, epochs=1)
    assert train(network(), blobs(), recipe, batch_size=32).recipe == recipe.replace(batch_size=32)


X, Y = blobs()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": "fats"}, "did you mean 'fast'"),
        ({"optimizer": "sdg"}, "did you mean 'sgd'"),
        ({"batchsize": 3}, "did you mean 'batch_size'"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 145}, "at most batch_size=144"),
        ({"batch_size": 11}, "choose another batch size"),
        ({"batch_size": 1}, "choose another batch size"),
        ({"data": (X[:0], Y[:0])}, "empty"),
        ({"data": (X, Y + 1)}, "build it with classes=4"),
        ({"data": (X[:, :3], Y)}, r"cannot take training inputs of shape \(3,\)"),
        ({"data": (X.numpy(), Y.numpy())}, "torch.as_tensor"),
        ({"data": (X * float("nan"), Y)}, "NaN or infinity"),
        ({"test": (X, Y + 1)}, "build it with classes=4"),
        ({"test": (X[:, :3], Y)}, "cannot take test inputs"),
        ({"augmentation": "crop-flip"}, "needs images"),
        ({"resume": True}, "give out="),
        ({"trajectory": 2}, "give out="),
        ({"trajectory": -1}, "at least 0"),
        ({"trajectory": [0]}, "between 1 and 2"),
        ({"trajectory": [1, 3]}, "between 1 and 2"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(arguments, message, tmp_path):
    model = network()
    before = weights(model)
    needs_no_folder = {"trajectory", "resume"} & arguments.keys()
    out = {} if needs_no_folder else {"out": tmp_path / "run"}
    with pytest.raises(CurvboundError, match=message):
        train(model, **({"data": (X, Y), "epochs": 2} | out | arguments))
    assert same(weights(model), before)
    assert model.training
    assert not (tmp_path / "run" / "final.safetensors").exists()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_fast_recipe_reaches_two_percent_on_mnist(seed):
    data = datasets.load("mnist")
    model = networks.build("F-600", data.shape, data.classes, seed=seed)
    result = train(model, data, "fast", seed=seed)
    assert result.epochs <= 8
    assert result.test_error <= 0.02
