"""Resuming, in one process and after real kills."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from curvbound.errors import CurvboundError
from curvbound.training import run as run_module
from curvbound.training import train


def images(count=22):
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(3, (count,), generator=generator)
    return torch.rand(count, 1, 4, 4, generator=generator) + targets[:, None, None, None], targets


def network(width=5):
    """Everything that makes resuming hard: batch statistics, dropout, tied weights."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = nn.Sequential(
            nn.Conv2d(1, width, 3),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(4 * width, 4 * width),
            nn.Linear(4 * width, 4 * width),
            nn.Linear(4 * width, 3),
        )
        model[6].weight = model[5].weight
    return model


class Interruption:
    """A schedule that interrupts training when it is asked for the `at`-th time."""

    def __init__(self, at=None):
        self.left = at

    def __call__(self, progress):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return 1 - progress / 2


def contents(folder):
    return {
        path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix != ".json"
    }


def untimed_history(folder):
    history = json.loads((Path(folder) / "training.json").read_text())["history"]
    return [{name: value for name, value in log.items() if name != "seconds"} for log in history]


@settings(max_examples=15)
@given(
    count=st.integers(4, 23),
    batch_size=st.integers(2, 4),
    epochs=st.integers(1, 4),
    interruptions=st.lists(st.integers(0, 12), max_size=3),
    save_seconds=st.sampled_from([0.0, 0.002, 1e9]),
    optimizer=st.sampled_from(["sgd", "adam"]),
    augmentation=st.sampled_from([None, "crop-flip"]),
    loader=st.booleans(),
)
def test_interrupted_runs_end_with_the_same_bits(
    count, batch_size, epochs, interruptions, save_seconds, optimizer, augmentation, loader
):
    batch_size += count % batch_size == 1  # a last batch of one has no batch statistics
    if count % batch_size == 1:
        count += 1
    data = images(count)
    if loader:
        data = DataLoader(TensorDataset(*data), batch_size=batch_size, shuffle=True)

    def start(out, interruption, **options):
        return train(
            network(),
            data,
            "001",
            epochs=epochs,
            batch_size=batch_size,
            optimizer=optimizer,
            augmentation=augmentation,
            schedule=interruption,
            seed=5,
            out=out,
            trajectory=2,
            **options,
        )

    share = run_module._SAVING_SHARE
    run_module._SAVING_SHARE = 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            whole, broken = Path(folder, "whole"), Path(folder, "broken")
            start(whole, Interruption())
            for at in interruptions:
                try:
                    start(broken, Interruption(at), resume=True, save_seconds=save_seconds)
                except KeyboardInterrupt:
                    assert not (broken / "training.json").exists()
            result = start(broken, Interruption(), resume=True)
            assert contents(broken) == contents(whole)
            assert untimed_history(broken) == untimed_history(whole)
            assert result.epochs == epochs
    finally:
        run_module._SAVING_SHARE = share


# One process that forks a child for each attempt, so that torch is imported once only. Each child
# is killed outright at a random moment; what is in the folder is all that the next one knows.
KILLS = """
import json, os, random, signal, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from test_run import images, network
from curvbound.training import run, train

run._SAVING_SHARE = 0
folder, moments = Path(sys.argv[2]), random.Random(int(sys.argv[3]))
options = dict(recipe="fast", lr=0.05, epochs=25, batch_size=4, augmentation="crop-flip", seed=2,
               trajectory=9, resume=True)
train(network(), images(), out=folder / "whole", **options)
state = folder / "killed" / "state.pt"
killed, reached = 0, []


def written():
    return state.stat().st_mtime_ns if state.exists() else 0


for attempt in range(8):
    before = written()
    child = os.fork()
    if child == 0:
        train(network(), images(), out=folder / "killed", save_seconds=0.0, **options)
        os._exit(0)
    if attempt % 2:  # let it get somewhere; the others are killed wherever they are
        deadline = time.monotonic() + 20
        while written() == before and time.monotonic() < deadline:
            time.sleep(0.001)
    time.sleep(moments.uniform(0.0, 0.2 if attempt % 2 else 0.05))
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if state.exists():
        loop = torch.load(state, weights_only=True)["loop"]
        reached.append((loop["epoch"], loop["step"]))
train(network(), images(), out=folder / "killed", **options)
print(json.dumps({"killed": killed, "reached": reached}))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork and SIGKILL")
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(tmp_path):
    arguments = [str(Path(__file__).parent), str(tmp_path), "1"]
    done = subprocess.run(
        [sys.executable, "-c", KILLS, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["killed"] >= 4, report
    assert len(set(map(tuple, report["reached"]))) >= 3, report  # some went on from others
    assert report["reached"] == sorted(report["reached"])
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert untimed_history(tmp_path / "killed") == untimed_history(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.3}, r"recipe\.lr was 0\.01 and is now 0\.3"),
        ({"epochs": 5}, r"recipe\.epochs was 3 and is now 5"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"trajectory": 1}, "trajectory"),
        ({"optimizer": "adam"}, r"recipe\.optimizer was 'sgd'"),
        ({"data": images(23)}, r"data\.shape was \[22, 1, 4, 4\]"),
        ({"data": (images()[0] * 2, images()[1])}, r"data\.sha256"),
        ({"model": network(6)}, r"network\.tensors\.0\.weight was '5x1x3x3 float32'"),
        ({"model": network().eval().double()}, "float64"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_resuming_something_else_is_refused_and_changes_nothing(
    tmp_path, changes, message, finished
):
    base = {"model": network(), "data": images(), "recipe": "001", "epochs": 3, "batch_size": 8}
    if finished:
        train(**base, out=tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            train(**base, out=tmp_path, augmentation=interrupt)
        base["augmentation"] = interrupt
    before = contents(tmp_path)
    with pytest.raises(CurvboundError, match=message):
        train(**(base | {"model": network()} | changes), out=tmp_path, resume=True)
    assert contents(tmp_path) == before


def interrupt(inputs, generator):
    raise KeyboardInterrupt


def test_a_used_folder_is_never_overwritten(tmp_path):
    base = {"data": images(), "recipe": "001", "epochs": 2, "batch_size": 8, "out": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        train(network(), augmentation=interrupt, **base)
    with pytest.raises(CurvboundError, match="unfinished"):
        train(network(), **base)
    (tmp_path / "state.pt").unlink()  # as if killed before the first state was written
    with pytest.raises(CurvboundError, match="unfinished"):
        train(network(), **base)
    train(network(), resume=True, **base)
    before = contents(tmp_path)
    with pytest.raises(CurvboundError, match="already holds a finished"):
        train(network(), **base)
    assert contents(tmp_path) == before


def test_resuming_a_finished_run_gives_its_result(tmp_path):
    base = {"data": images(), "recipe": "001", "epochs": 2, "batch_size": 8, "out": tmp_path}
    first = train(network(), test=images(), **base)
    (tmp_path / "state.pt").write_bytes(b"left by a kill")
    again = train(network(), test=images(), resume=True, **base)
    assert again.history == first.history
    assert (again.train_loss, again.test_error) == (first.train_loss, first.test_error)
    assert (again.files, again.epochs) == (first.files, first.epochs)
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
        assert torch.equal(first.init[name], again.init[name])
    assert not (tmp_path / "state.pt").exists()


def test_an_unreadable_state_is_refused(tmp_path):
    (tmp_path / "state.pt").write_bytes(b"broken")
    with pytest.raises(CurvboundError, match="delete it to start anew"):
        train(network(), images(), "001", epochs=1, batch_size=8, out=tmp_path, resume=True)


@pytest.mark.parametrize("save_seconds", [0.0, 1e9])
def test_divergence_gives_the_weights_back_and_leaves_no_files(tmp_path, save_seconds):
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(CurvboundError, match=r"at step \d+ of epoch 1; lower the learning rate"):
        train(
            model,
            images(),
            "001",
            lr=1e30,
            batch_size=4,
            out=tmp_path,
            trajectory=1,
            epochs=2,
            save_seconds=save_seconds,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_divergence_in_the_very_last_step_is_noticed(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(CurvboundError, match="after the last step of epoch 1"):
        train(network(), images(), "001", lr=1e38, batch_size=22, epochs=1, out=out)
    assert not out.exists()


def test_the_record_says_how_the_weights_came_about(tmp_path):
    result = train(
        network(), images(), "001", epochs=4, batch_size=8, test=images(), out=tmp_path,
        trajectory=[1, 3], seed=9,
    )  # fmt: skip
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["settings"]["recipe"]["lr"] == 0.01
    assert record["settings"]["seed"] == 9
    assert record["result"]["train_error"] == result.train_error
    assert len(record["history"]) == 4
    assert record["versions"]["torch"] == torch.__version__
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "epoch-0001.safetensors",
        "epoch-0003.safetensors",
        "final.safetensors",
        "init.safetensors",
        "training.json",
    ]
    init, final = load_file(result.files["init"]), load_file(result.files["final"])
    for name, value in network().state_dict().items():
        assert torch.equal(init[name], value)
        assert torch.equal(final[name], result.model.state_dict()[name])
    assert set(result.files) == {"init", "final", "record", "epoch-0001", "epoch-0003"}
