"""The landscape: values, streaming, refusals, and that the network stays as it was."""

import copy
import gc

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from curvbound.curvature.fisher import fisher
from curvbound.curvature.gauss_newton import gauss_newton
from curvbound.curvature.hessian import hessian
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape
from oracles import dense
from oracles.networks import BY_NAME, DTYPES, GRID, LOSSES

X = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(9) % 2


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).eval()


class Snapshot:
    """Everything about a network that must not change."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.state = copy.deepcopy(model.state_dict())
        self.facts = self._facts()

    def _facts(self):
        model = self.model
        return (
            [(name, id(p), p.requires_grad, id(p.grad)) for name, p in model.named_parameters()],
            [(name, id(b)) for name, b in model.named_buffers()],
            [
                (
                    m.training,
                    len(m._forward_hooks),
                    len(m._forward_pre_hooks),
                    len(m._backward_hooks),
                )
                for m in model.modules()
            ],
            torch.get_rng_state().sum(),
            torch.is_grad_enabled(),
        )

    def check(self) -> None:
        assert self._facts() == self.facts
        for name, tensor in self.model.state_dict().items():
            torch.testing.assert_close(
                tensor, self.state[name], rtol=0, atol=0, equal_nan=True, msg=name
            )


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient(case, loss):
    for dtype in DTYPES:
        model, inputs, targets = case.make(loss, dtype)
        land = Landscape(model, (inputs, targets), loss=loss, batch_size=3)
        outputs = dense.output_function(model, inputs)(dense.flat_parameters(dense.double(model)))
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        assert land.loss_value() == pytest.approx(
            float(dense.mean_loss(loss)(outputs, targets)), rel=tolerance
        )
        gradient = land.gradient()
        assert gradient.dtype == dtype
        expected = dense.gradient(model, inputs, targets, loss)
        assert (gradient - expected).norm() <= tolerance * expected.norm()


def test_every_kind_of_data_gives_the_same_gradient():
    model = network()
    expected = Landscape(model, (X, Y)).gradient()
    for data in (
        TensorDataset(X, Y),
        DataLoader(TensorDataset(X, Y), batch_size=2, shuffle=True),
        [(X[:5], Y[:5]), (X[5:], Y[5:])],
        (X.double().numpy(), Y.numpy()),
    ):
        land = Landscape(model, data)
        assert land.n == 9
        torch.testing.assert_close(land.gradient(), expected)


def test_dictionaries_and_outputs_with_logits():
    class Output:
        def __init__(self, logits: torch.Tensor) -> None:
            self.logits = logits

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, features, scale):
            return Output(self.net(features * scale[:, None]))

    model = Wrapped().eval()
    batches = [{"features": X, "scale": torch.full((9,), 2.0), "labels": Y}]
    torch.testing.assert_close(
        Landscape(model, batches, batch_size=4).gradient(),
        Landscape(model.net, (2 * X, Y)).gradient(),
    )


def test_ignored_labels_count_for_nothing():
    model, inputs, targets = BY_NAME["tied"].make()
    targets[0, 1:] = -100
    targets[3] = -100
    land = Landscape(model, (inputs, targets), batch_size=2)
    assert (land.n, land.terms) == (7, 7 * 4 - 7)
    logits = model(inputs).detach().reshape(-1, 3)
    expected = nn.functional.cross_entropy(logits, targets.reshape(-1))
    assert land.loss_value() == pytest.approx(float(expected), rel=1e-12)


def test_shuffled_loaders_are_read_in_the_same_order_every_time():
    loader = DataLoader(TensorDataset(X, Y), batch_size=2, shuffle=True)
    land = Landscape(network(), loader)
    before = torch.get_rng_state()
    assert torch.equal(land.gradient(), land.gradient())
    assert torch.equal(torch.get_rng_state(), before)


def test_flatten_and_unflatten_are_inverse():
    land = Landscape(network(), (X, Y))
    v = torch.randn(land.size)
    assert torch.equal(land.flatten(list(land.unflatten(v).values())), v)


def test_reduce_sums_dictionaries_and_tuples():
    land = Landscape(network(), (X, Y), batch_size=2)
    total = land.reduce(lambda x, y: {"x": x.sum(0), "n": torch.tensor(len(y))})
    torch.testing.assert_close(total["x"], X.sum(0))
    assert int(total["n"]) == 9
    (count,) = land.reduce(lambda x, y: (torch.tensor(len(y)),))
    assert int(count) == 9


def test_choosing_layers_and_parameters():
    land = Landscape(network(), (X, Y))
    assert land.choose("0") == ("0.weight", "0.bias")
    assert land.choose(["3.bias", "0"]) == ("0.weight", "0.bias", "3.bias")
    assert land.choose(None) == tuple(land.parameters)
    with pytest.raises(CurvboundError, match="no trainable layer or parameter 'fc9'"):
        land.choose("fc9")
    with pytest.raises(CurvboundError, match="list of layers is empty"):
        land.choose([])


def test_restricted_to_some_parameters():
    land = Landscape(network(), (X, Y), parameters=["3"])
    assert list(land.parameters) == ["3.weight", "3.bias"]
    assert land.size == 10
    assert "0.weight" in land.frozen
    full = Landscape(network(), (X, Y))
    torch.testing.assert_close(land.gradient(), full.gradient()[full.layers["3"].slice])


def test_frozen_parameters_are_constants_and_said_so():
    model = network()
    model[0].requires_grad_(False)
    land = Landscape(model, (X, Y))
    assert land.frozen == ("0.weight", "0.bias")
    assert "2 parameters held constant" in repr(land)
    snapshot = Snapshot(model)
    assert hessian(land).shape == (18, 18)
    hessian(land) @ torch.ones(18)
    snapshot.check()


def test_tied_weights_count_once():
    model, inputs, targets = BY_NAME["tied"].make()
    land = Landscape(model, (inputs, targets))
    assert list(land.parameters) == ["embedding.weight", "mix.weight", "mix.bias"]


def test_fingerprint_sees_every_way_to_change_a_weight():
    model = network()
    land = Landscape(model, (X, Y))
    seen = [land.fingerprint()]
    assert land.fingerprint() == seen[0]
    with torch.no_grad():
        model[0].weight.add_(1)
    seen.append(land.fingerprint())
    model[0].weight.data.mul_(2)
    seen.append(land.fingerprint())
    model[1].running_mean.add_(1)
    seen.append(land.fingerprint())
    assert len(set(seen)) == 4


class Noise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, x):
        return self.net(x) + torch.rand(2)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return self.net(x)


def broken(kind: str):
    """A network and data with one thing wrong, and what the sentence must say."""
    model, data, options = network(), (X, Y), {}
    if kind == "dropout":
        model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    elif kind == "batch_norm":
        model.train()
    elif kind == "nan":
        model[0].weight.data[0, 0] = float("nan")
    elif kind == "random":
        model = Noise().eval()
    elif kind == "buffer":
        model = Counter().eval()
    elif kind == "complex":
        model.extra = nn.Parameter(torch.zeros(1, dtype=torch.complex64))
    elif kind == "integer":
        model.extra = nn.Parameter(torch.zeros(1, dtype=torch.int64), requires_grad=False)
    elif kind == "frozen":
        model.requires_grad_(False)
    elif kind == "empty":
        data = DataLoader(TensorDataset(X[:0], Y[:0]))
    elif kind == "labels":
        data = (X, torch.tensor([0] * 8 + [2]))
    elif kind == "ignored":
        data = (X, torch.full((9,), -100))
    elif kind == "sum":
        options = {"loss": nn.CrossEntropyLoss(reduction="sum")}
    elif kind == "memory":
        options = {"memory": 100}
    elif kind == "infinite":
        data = (X * float("inf"), Y)
    elif kind == "batch_size":
        options = {"batch_size": 0}
    return model, data, options


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("dropout", "Dropout module '1'"),
        ("batch_norm", "BatchNorm module '1'"),
        ("nan", "Parameter '0.weight' contains NaN"),
        ("random", "Two forward passes on the same input disagree"),
        ("buffer", "changes the buffer 'seen'"),
        ("complex", "Parameter 'extra' is complex"),
        ("integer", "Parameter 'extra' has integer type"),
        ("frozen", "no trainable parameters"),
        ("empty", "The data are empty"),
        ("labels", "Labels run from 0 to 2 but the network has 2 outputs"),
        ("ignored", "Every label is -100"),
        ("sum", "is not a mean over examples"),
        ("memory", "raise memory="),
        ("infinite", "not finite"),
        ("batch_size", "batch_size must be at least 1"),
    ],
)
def test_one_clear_sentence_and_the_network_unchanged(kind, message):
    model, data, options = broken(kind)
    snapshot = Snapshot(model)
    with pytest.raises(CurvboundError, match=message) as caught:
        Landscape(model, data, **options)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    snapshot.check()


def test_the_model_must_be_a_module():
    with pytest.raises(CurvboundError, match=r"must be a torch\.nn\.Module"):
        Landscape(lambda x: x, (X, Y))


def test_the_network_is_left_as_it_was():
    model = network()
    model(X).sum().backward()
    model[3].register_forward_hook(lambda *_: None)
    snapshot = Snapshot(model)
    land = Landscape(model, (X, Y), batch_size=4)
    snapshot.check()
    v = torch.ones(land.size)
    for work in (
        land.loss_value,
        land.gradient,
        lambda: hessian(land) @ v,
        lambda: gauss_newton(land) @ v,
        lambda: fisher(land, labels="sampled") @ v,
    ):
        work()
        snapshot.check()


def test_the_network_is_left_as_it_was_after_an_error_in_the_middle():
    model = network()

    class Failing:
        def __iter__(self):
            yield X, Y
            if self.armed:
                raise OSError("disk")

        armed = False

    data = Failing()
    land = Landscape(model, data, batch_size=4)
    snapshot = Snapshot(model)
    data.armed = True
    for operator in (hessian(land), gauss_newton(land)):
        with pytest.raises(OSError, match="disk"):
            operator @ torch.ones(land.size)
        snapshot.check()


def test_memory_does_not_grow_with_the_data():
    """A loader that is streamed leaves no more tensors behind for more data."""

    class Endless:
        def __init__(self, batches: int) -> None:
            self.batches = batches

        def __iter__(self):
            for index in range(self.batches):
                yield X + index, Y

    alive = []
    for batches in (10, 100):
        land = Landscape(network(), Endless(batches), batch_size=9, memory=10_000)
        H = hessian(land)
        H @ torch.ones(land.size)
        gc.collect()
        alive.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
        del H, land
    assert alive[1] <= alive[0] + 50
