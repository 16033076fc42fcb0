"""Worlds in which the true risk is known, to count how often a bound is wrong."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

FLIP = 0.1


def most_violations(repetitions: int, delta: float) -> int:
    """Return the count that failures of probability ``delta`` exceed once in a million trials."""
    return int(binom.ppf(1.0 - 1e-6, repetitions, delta))


@dataclass(frozen=True)
class ThresholdWorld:
    """x uniform on (0, 1), label x > 1/2 flipped with probability 0.1, classifier x > theta.

    Posteriors are N(mean, std^2) for theta on a grid of both; priors are N(0, scale) for 8 scales.
    All risks are exact.
    """

    x: np.ndarray  # (repetitions, n)
    y: np.ndarray  # (repetitions, n) bool
    mean: np.ndarray  # (posteriors,)
    std: np.ndarray  # (posteriors,)
    scales: np.ndarray  # (8,)

    @classmethod
    def draw(cls, repetitions: int, n: int, seed: int) -> "ThresholdWorld":
        rng = np.random.default_rng(seed)
        x = rng.random((repetitions, n))
        y = (x > 0.5) ^ (rng.random(x.shape) < FLIP)
        mean, std = np.meshgrid(np.linspace(0.3, 0.7, 9), np.geomspace(0.01, 0.3, 5))
        return cls(x, y, mean.ravel(), std.ravel(), np.geomspace(0.01, 10.0, 8))

    @cached_property
    def empirical_risk(self) -> np.ndarray:
        """The expected training error of every posterior, (repetitions, posteriors)."""
        columns = []
        for mean, std in zip(self.mean, self.std, strict=True):
            says_one = ndtr((self.x - mean) / std)
            columns.append(np.where(self.y, 1.0 - says_one, says_one).mean(axis=1))
        return np.stack(columns, axis=1)

    def true_risk(self) -> np.ndarray:
        """Return the expected true error of every posterior."""

        def area(x: float) -> np.ndarray:  # antiderivative of the chance to say one
            z = (x - self.mean) / self.std
            density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            return (x - self.mean) * ndtr(z) + self.std * density

        below, above = area(0.5) - area(0.0), area(1.0) - area(0.5)
        return FLIP + (1.0 - 2.0 * FLIP) * (below + 0.5 - above)

    def kl(self) -> np.ndarray:
        """Return KL(posterior || prior), (scales, posteriors)."""
        ratio = self.std**2 / self.scales[:, None]
        return 0.5 * (ratio - 1.0 - np.log(ratio) + self.mean**2 / self.scales[:, None])

    def log_ratio(self, theta: np.ndarray, posterior: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return ln dQ/dP at theta."""
        z = (theta - self.mean[posterior]) / self.std[posterior]
        log_scale = np.log(self.std[posterior]) - 0.5 * np.log(scale)
        return -log_scale - 0.5 * z * z + 0.5 * theta**2 / scale

    def drawn_risks(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return training and true error of the classifier x > theta, one per repetition."""
        wrong = (self.x > theta[:, None]) != self.y
        distance = np.abs(np.clip(theta, 0.0, 1.0) - 0.5)
        return wrong.mean(axis=1), FLIP + (1.0 - 2.0 * FLIP) * distance


@dataclass(frozen=True)
class RandomLabels:
    """Linear classifiers in 200 dimensions that fit 40 coin-flip labels; their true risk is 1/2."""

    x: np.ndarray  # (repetitions, 40, 200)
    y: np.ndarray  # (repetitions, 40), -1 or 1
    w: np.ndarray  # (repetitions, 200), interpolates the labels

    @classmethod
    def draw(cls, repetitions: int, seed: int) -> "RandomLabels":
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((repetitions, 40, 200))
        y = rng.choice([-1.0, 1.0], (repetitions, 40))
        dual = np.linalg.solve(x @ x.transpose(0, 2, 1), y[..., None])
        return cls(x, y, (x.transpose(0, 2, 1) @ dual)[..., 0])

    def empirical_risk(self, std: float) -> np.ndarray:
        """Return the exact training error of N(w, std^2 I)."""
        return ndtr(-self._margin / std).mean(axis=1)

    @cached_property
    def _margin(self) -> np.ndarray:
        return self.y * np.einsum("rnd,rd->rn", self.x, self.w) / np.linalg.norm(self.x, axis=2)

    def drawn_error(self, weights: np.ndarray) -> np.ndarray:
        """Return the training error of given weights, one row per repetition."""
        return (self.y * np.einsum("rnd,rd->rn", self.x, weights) <= 0.0).mean(axis=1)
