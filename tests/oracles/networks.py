"""A declared grid of small networks: every kind of layer, loss and precision that must be right.

``GRID`` lists the networks, ``LOSSES`` and ``DTYPES`` what to cross them with; ``case.make(loss,
dtype)`` returns the network in evaluation mode with inputs and targets. All are small enough for a
dense Hessian (at most about 150 parameters) and the same on every call.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

LOSSES = ("cross_entropy", "mse", "binary_cross_entropy")
DTYPES = (torch.float32, torch.float64)
EXAMPLES = 7
CLASSES = 3


@dataclass(frozen=True)
class Case:
    """One network of the grid.

    Attributes:
        name: Identifies it in test names.
        build: Makes the network (float32).
        inputs: Makes the inputs.
        piecewise_linear: Outputs are piecewise linear in every single layer.
        calls: Calls of layers that run more than once, by layer name.
        positions: Output positions per example (0: the output is (N, C)).
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    piecewise_linear: bool = True
    calls: tuple[tuple[str, int], ...] = ()
    positions: int = 0

    def make(
        self, loss: str = "cross_entropy", dtype: torch.dtype = torch.float64, seed: int = 0
    ) -> tuple[nn.Module, Tensor, Tensor]:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = self.build()
            inputs = self.inputs()
            shape = (EXAMPLES, self.positions) if self.positions else (EXAMPLES,)
            if loss == "cross_entropy":
                targets = torch.randint(CLASSES, shape)
            elif loss == "mse":
                targets = torch.randn(*shape, CLASSES)
            else:
                targets = torch.randint(2, (*shape, CLASSES)).to(torch.float32)
        model = model.to(dtype).eval()
        return (
            model,
            inputs if not inputs.is_floating_point() else inputs.to(dtype),
            targets if not targets.is_floating_point() else targets.to(dtype),
        )


def _vectors(width: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(EXAMPLES, width)


def _images(channels: int, side: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(EXAMPLES, channels, side, side)


def _sequences(length: int, width: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(EXAMPLES, length, width)


def _tokens(length: int, vocabulary: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(vocabulary, (EXAMPLES, length))


class Residual(nn.Module):
    """Convolution, BatchNorm with non-trivial statistics, skip connection, global pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3, CLASSES)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        x = functional.relu(x + self.conv(x))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Self-attention over a sequence, mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.head((x + mixed).mean(1))


class Transformer(nn.Module):
    """One encoder layer: attention, LayerNorm and dense layers over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(4, 2, 3, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


class Shared(nn.Module):
    """A dense layer shared over the positions of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(functional.relu(self.embed(x)).mean(1))


class Twice(nn.Module):
    """One module that runs twice in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.again = nn.Linear(4, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        return self.head(functional.relu(self.again(functional.relu(self.again(x)))))


class Tied(nn.Module):
    """A small language model whose output layer is its embedding; one output row per position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, CLASSES, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.embedding(tokens))).cumsum(1))


class Bag(nn.Module):
    """Embedding, mean over positions, dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(functional.relu(self.embedding(tokens).mean(1)))


class Recurrent(nn.Module):
    """An LSTM read out at its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 2, batch_first=True)
        self.head = nn.Linear(2, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class Bare(nn.Module):
    """Parameters of its own, used without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.matrix = nn.Parameter(torch.randn(CLASSES, 4))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x * self.scale) @ self.matrix.T


GRID = (
    Case(
        "dense",
        lambda: nn.Sequential(
            nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, CLASSES)
        ),
        _vectors(5),
    ),
    Case(
        "no_bias",
        lambda: nn.Sequential(
            nn.Linear(5, 4, bias=False), nn.LeakyReLU(), nn.Linear(4, CLASSES, bias=False)
        ),
        _vectors(5),
    ),
    Case(
        "tanh",
        lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES)),
        _vectors(5),
        piecewise_linear=False,
    ),
    Case(
        "conv",
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=2, dilation=2, groups=2),
            nn.ReLU(),
            nn.Conv2d(4, 2, 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2, CLASSES),
        ),
        _images(2, 8),
    ),
    Case(
        "conv1d",
        lambda: nn.Sequential(
            nn.Conv1d(3, 4, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Conv1d(4, 2, 2, bias=False),
            nn.AvgPool1d(2),
            nn.Flatten(),
            nn.Linear(2, CLASSES),
        ),
        lambda: torch.randn(EXAMPLES, 3, 7),
    ),
    Case(
        "conv_same",
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding="same"),
            nn.ReLU(),
            nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2, CLASSES),
        ),
        _images(1, 4),
    ),
    Case("residual", Residual, _images(1, 4)),
    Case(
        "layer_norm",
        lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, CLASSES)),
        _vectors(5),
        piecewise_linear=False,
    ),
    Case(
        "group_norm",
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES)
        ),
        _images(1, 4),
        piecewise_linear=False,
    ),
    Case("attention", Attention, _sequences(3, 4), piecewise_linear=False),
    Case("transformer", Transformer, _sequences(3, 4), piecewise_linear=False),
    Case("shared", Shared, _sequences(4, 3)),
    Case("twice", Twice, _vectors(3), calls=(("again", 2),)),
    Case("bag", Bag, _tokens(4, 5)),
    Case("tied", Tied, _tokens(4, CLASSES), piecewise_linear=False, positions=4),
    Case("recurrent", Recurrent, _sequences(3, 2), piecewise_linear=False),
    Case("bare", Bare, _vectors(4)),
)

BY_NAME = {case.name: case for case in GRID}


def layer_inputs_are_vectors(case: Case) -> bool:
    """Plain dense networks, where 001's E[M kron x x^T] holds without positions."""
    return case.name in ("dense", "no_bias", "tanh")
