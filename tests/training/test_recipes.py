import functools

import pytest
import torch

from curvbound.errors import CurvboundError
from curvbound.training import Recipe, get_recipe, recipes
from curvbound.training.schedules import SCHEDULES


def test_every_recipe_says_what_it_is_for_and_names_its_paper():
    for name, recipe in recipes().items():
        assert recipe.name == name
        assert recipe.description
        if name[0].isdigit():
            assert recipe.description.startswith(name[:3])


def test_001_is_plain_sgd():
    recipe = get_recipe("001")
    assert (recipe.optimizer, recipe.lr, recipe.batch_size, recipe.epochs) == (
        "sgd",
        0.01,
        128,
        1000,
    )
    assert (recipe.momentum, recipe.weight_decay, recipe.schedule) == (0.0, 0.0, "constant")
    assert get_recipe("001-lr0.001").lr == 0.001
    variant = get_recipe("001-momentum")
    assert (variant.lr, variant.momentum, variant.weight_decay) == (0.01, 0.9, 5e-4)


def test_002_divides_the_rate_at_epochs_100_and_150():
    recipe = get_recipe("002-cnn6")
    schedule = SCHEDULES[recipe.schedule]
    rates = [recipe.lr * schedule(epoch / recipe.epochs) for epoch in (0, 99, 100, 149, 150, 199)]
    assert rates == pytest.approx([0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001])
    assert recipe.nesterov
    assert (recipe.momentum, recipe.weight_decay) == (0.9, 1e-4)
    assert recipe.augmentation == "crop-flip"


def test_004_compares_three_weight_decays():
    for net in ("mlp", "cnn", "preresnet", "wrn"):
        names = [f"004-{net}", f"004-{net}-wd1e-4", f"004-{net}-wd5e-4"]
        assert [get_recipe(name).weight_decay for name in names] == [0.0, 1e-4, 5e-4]
        assert {get_recipe(name).schedule for name in names} == {"linear-tail"}
    assert get_recipe("004-mlp").epochs == 50


def test_a_recipe_is_replaced_not_changed():
    original = get_recipe("001")
    assert original.replace(lr=0.5).lr == 0.5
    assert get_recipe("001").lr == 0.01


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"epochs": 2.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"lr": 0.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"lr": "fast"}, "lr"),
        ({"momentum": 1.0}, "momentum"),
        ({"weight_decay": -1e-4}, "weight_decay"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"stop_error": -0.1}, "stop_error"),
        ({"nesterov": True}, "momentum"),
        ({"optimizer": "sdg"}, "did you mean 'sgd'"),
        ({"schedule": "cosinus"}, "did you mean 'cosine'"),
        ({"batchsize": 3}, "did you mean 'batch_size'"),
    ],
)
def test_senseless_settings_are_refused(changes, message):
    with pytest.raises(CurvboundError, match=message):
        Recipe().replace(**changes)


def test_an_unknown_recipe_is_refused_with_a_suggestion():
    with pytest.raises(CurvboundError, match="did you mean 'fast'"):
        get_recipe("fats")


def test_settings_name_functions_so_that_runs_can_be_compared():
    half = functools.partial(torch.optim.lr_scheduler.StepLR, step_size=3)
    recipe = Recipe(optimizer=torch.optim.AdamW, schedule=half)
    settings = recipe.settings()
    assert settings["optimizer"] == "torch.optim.adamw.AdamW"
    assert settings["schedule"] == "torch.optim.lr_scheduler.StepLR(step_size=3)"
    other = Recipe(schedule=functools.partial(half.func, step_size=4))
    assert other.settings()["schedule"] != settings["schedule"]
