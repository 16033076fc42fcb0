import pytest
import torch

from curvbound.datasets import SCALINGS, Examples, Scaling, fit_scaling
from curvbound.datasets.scaling import as_scaling
from curvbound.errors import CurvboundError


def table(rows: int = 50, features: int = 4) -> Examples:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(rows, features, generator=generator) * 3 + 7
    return Examples(inputs, torch.arange(rows) % 2, 2, "table")


@pytest.mark.parametrize(
    ("name", "shift", "scale"), [("unit", 0, 1), ("symmetric", 0.5, 0.5), ("mnist", 0.1307, 0.3081)]
)
def test_named_scalings_are_constants(name: str, shift: float, scale: float) -> None:
    inputs = torch.rand(5, 1, 3, 3, dtype=torch.float64)
    assert torch.equal(SCALINGS[name].apply(inputs), (inputs - shift) / scale)
    assert SCALINGS[name].fitted_on is None


def test_apply_leaves_its_argument_alone() -> None:
    inputs = torch.ones(2, 3)
    SCALINGS["symmetric"].apply(inputs)
    assert torch.equal(inputs, torch.ones(2, 3))


def test_constants_of_each_channel() -> None:
    scaled = as_scaling(((1.0, 2.0), (2.0, 4.0))).apply(torch.full((1, 2, 2, 2), 5.0))
    assert torch.equal(scaled[0, :, 0, 0], torch.tensor([2.0, 0.75]))


def test_wrong_number_of_constants() -> None:
    with pytest.raises(CurvboundError, match="2 constants but the inputs have 3"):
        as_scaling(((1.0, 2.0), 1.0)).apply(torch.ones(4, 3))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("imagenet", "unknown scaling 'imagenet'"),
        ((0.0, 0.0), "must not be 0"),
        ((float("nan"), 1.0), "must be finite"),
        (((), ()), "must be finite"),
        (3.0, "neither a name nor a pair"),
        ((1.0, 2.0, 3.0), "neither a name nor a pair"),
        (("a", 1.0), "neither a name nor a pair"),
    ],
)
def test_unusable_choices(choice: object, message: str) -> None:
    with pytest.raises(CurvboundError, match=message):
        as_scaling(choice)  # type: ignore[arg-type]


def test_fitted_scaling_standardises_the_prior_part_only() -> None:
    prior, bound = table().split(0.5, 0.5)
    scaling = fit_scaling(prior)
    scaled = prior.scaled(scaling).inputs.double()
    torch.testing.assert_close(
        scaled.mean(0), torch.zeros(4, dtype=torch.float64), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(4, dtype=torch.float64))
    assert bound.scaled(scaling).inputs.mean(0).abs().max() > 1e-3


def test_fitted_scaling_remembers_its_rows() -> None:
    prior, bound = table().split(0.5, 0.5)
    scaling = fit_scaling(prior)
    assert scaling.fitted_on is not None
    assert bound.scaled(scaling).overlap(scaling.fitted_on) == 0
    assert prior.scaled(scaling).overlap(scaling.fitted_on) == len(prior)
    assert bound.scaled(scaling).scaling is scaling


def test_fit_streams_pictures_by_channel() -> None:
    inputs = torch.rand(5000, 2, 3, 3)
    scaling = fit_scaling(Examples(inputs, torch.arange(5000) % 2, 2))
    torch.testing.assert_close(
        torch.tensor(scaling.shift, dtype=torch.float64), inputs.double().mean((0, 2, 3))
    )
    deviation = inputs.double().transpose(0, 1).flatten(1).std(1, correction=0)
    torch.testing.assert_close(torch.tensor(scaling.scale, dtype=torch.float64), deviation)


def test_constant_feature_is_only_shifted() -> None:
    inputs = torch.cat([torch.full((8, 1), 0.1), torch.arange(8.0)[:, None]], 1)
    examples = Examples(inputs, torch.arange(8) % 2, 2)
    scaling = fit_scaling(examples)
    assert scaling.scale[0] == 1.0
    assert torch.equal(examples.scaled(scaling).inputs[:, 0], torch.zeros(8))


def test_fit_refuses_scaled_examples() -> None:
    with pytest.raises(CurvboundError, match="already scaled"):
        fit_scaling(table().scaled((1.0, 2.0)))


def test_identity() -> None:
    assert SCALINGS["unit"].identity
    assert not SCALINGS["mnist"].identity
    assert Scaling("own", (0.0, 0.0), (1.0, 1.0)).identity
