import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.gaussians import NoisyNetwork, Uniform, from_tensors, isotropic
from oracles.gaussians import law_difference, network_parameters, normal_limit, positive


def line(centre: float, half_width: float) -> Uniform:
    return Uniform({"w": torch.tensor([centre], dtype=torch.float64)}, half_width)


@given(st.floats(-3, 3), st.floats(0.01, 2), st.floats(0.01, 6))
@settings(deadline=None, max_examples=80)
def test_kl_is_the_logarithm_of_the_widths_or_infinite(centre, narrow, wide):
    from fractions import Fraction

    found = line(centre, narrow).kl(line(0.0, wide)).total
    if abs(Fraction(centre)) + Fraction(narrow) <= Fraction(wide):
        exact = math.log(wide / narrow)
        assert exact - 1e-15 <= found <= exact * (1 + 1e-11) + 1e-14
    else:
        assert found == math.inf


def test_inclusion_is_decided_without_rounding():
    wide = 1.0
    assert line(0.0, wide).kl(line(0.0, wide)).total < 1e-300
    assert line(0.25, 0.75).kl(line(0.0, wide)).total == pytest.approx(math.log(4 / 3))
    # 2^-54 is lost when added to 1 but is still outside.
    assert line(2.0**-54, wide).kl(line(0.0, wide)).total == math.inf
    assert line(1.0, 2.0**-54).kl(line(0.0, wide)).total == math.inf
    assert line(0.25, math.nextafter(0.75, 1)).kl(line(0.0, wide)).total == math.inf
    assert line(1.0, 2.0**-60).kl(line(2.0**-60, wide)).total < math.inf


def test_kl_agrees_with_quadrature():
    from scipy.integrate import quad

    narrow, wide = 0.3, 1.7
    exact, _ = quad(lambda x: (0.5 / narrow) * math.log(wide / narrow), 0.4 - narrow, 0.4 + narrow)
    assert line(0.4, narrow).kl(line(0.0, wide)).total == pytest.approx(exact, rel=1e-10)


def make() -> Uniform:
    mean = network_parameters()
    return Uniform(mean, {name: positive(tuple(t.shape), 1) for name, t in mean.items()})


def test_samples_fill_the_box_evenly():
    from scipy.stats import kstest

    posterior = make()
    generator = torch.Generator().manual_seed(0)
    draws = [posterior.sample(generator, dtype=torch.float64) for _ in range(800)]
    for name, width in posterior.half_width.items():
        unit = torch.stack([(d[name] - posterior.mean[name].double()) / width for d in draws])
        assert unit.abs().max() <= 1 + 1e-12
        pvalue = kstest(unit.reshape(len(draws), -1)[:, 0].numpy(), "uniform", (-1, 2)).pvalue
        assert pvalue > 1e-6
        second = posterior.second_moment()[name] / width.square()
        assert torch.allclose(second, torch.full_like(second, 1 / 3))
        error = normal_limit(1) * math.sqrt(4 / 45 / unit.numel())
        assert abs(float(unit.square().mean()) - 1 / 3) < error


def test_log_prob_is_flat_inside_and_minus_infinity_outside():
    posterior = make()
    drawn = posterior.sample(torch.Generator().manual_seed(0), dtype=torch.float64)
    volume = sum(float((2 * width).log().sum()) for width in posterior.half_width.values())
    assert posterior.log_prob(drawn) == pytest.approx(-volume, rel=1e-12)
    outside = {**drawn, "scale": posterior.mean["scale"].double() + 10}
    assert posterior.log_prob(outside) == -math.inf
    prior = Uniform({name: torch.zeros_like(t) for name, t in posterior.mean.items()}, 10.0)
    assert posterior.log_ratio(prior, drawn) == pytest.approx(posterior.kl(prior).total, rel=1e-9)


def test_noisy_networks_have_the_law_of_drawn_weights():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).eval()
    generator = torch.Generator().manual_seed(0)
    mean = {n: torch.randn(p.shape, generator=generator) for n, p in model.named_parameters()}
    posterior = Uniform(mean, {name: positive(tuple(t.shape), 1) for name, t in mean.items()})
    inputs = torch.randn(3, 2, generator=generator)
    noisy = NoisyNetwork(model, posterior, inputs)
    assert set(noisy.method.values()) == {"per-example"}
    found = noisy(inputs[:1].expand(2000, 2), generator)
    explicit = [posterior.sample(generator) for _ in range(2000)]
    weights = {name: torch.stack([draw[name] for draw in explicit]) for name in mean}
    with torch.no_grad():
        expected = torch.func.vmap(
            lambda drawn: torch.func.functional_call(model, drawn, (inputs[:1],))
        )(weights)[:, 0]
    assert law_difference(found.numpy(), expected.numpy()) > 1e-6
    assert abs(np.corrcoef(found[:-1, 0], found[1:, 0])[0, 1]) < normal_limit(1) / 2000**0.5


def test_storage_brings_back_the_same_distribution():
    posterior = make()
    back = from_tensors(*posterior.to_tensors())
    assert back.hash == posterior.hash
    assert torch.equal(back.half_width["scale"], posterior.half_width["scale"])


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf"), {}])
def test_bad_widths_are_refused(width):
    with pytest.raises(CurvboundError, match="half width of parameter"):
        Uniform({"w": torch.zeros(2)}, width)


def test_other_priors_are_refused():
    posterior = make()
    with pytest.raises(CurvboundError, match="use a uniform prior"):
        posterior.kl(isotropic(posterior.mean, 1.0))
    with pytest.raises(CurvboundError, match="another architecture"):
        posterior.kl(Uniform({"w": torch.zeros(2)}, 1.0))
