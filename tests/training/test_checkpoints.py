import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.training.checkpoints import RunFolder, differences, read_weights, write_weights


def test_weights_come_back_bit_for_bit(tmp_path):
    weights = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).state_dict()
    write_weights(tmp_path / "w.safetensors", weights)
    torch.save(weights, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        back = read_weights(tmp_path / name)
        assert back.keys() == weights.keys()
        assert all(torch.equal(back[key], weights[key]) for key in weights)


def test_tied_weights_can_be_written(tmp_path):
    shared = torch.rand(3, 3)
    write_weights(tmp_path / "w.safetensors", {"a": shared, "b": shared, "c": shared.t()})
    back = read_weights(tmp_path / "w.safetensors")
    assert torch.equal(back["a"], shared)
    assert torch.equal(back["c"], shared.t())


def test_nothing_half_written_is_left_when_writing_fails(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_state({"epoch": 1})
    with pytest.raises(Exception, match="pickle"):
        folder.save_state({"epoch": 2, "bad": (number for number in range(3))})
    assert folder.load_state() == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]


class Trap:
    def __reduce__(self):
        return (print, ("executed",))


def test_files_that_would_run_code_are_refused(tmp_path, capsys):
    torch.save({"weight": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(CurvboundError, match="read safely"):
        read_weights(tmp_path / "trap.pt")
    torch.save(Trap(), tmp_path / "state.pt")
    with pytest.raises(CurvboundError, match="delete it to start anew"):
        RunFolder(tmp_path).load_state()
    assert "executed" not in capsys.readouterr().out


def test_files_that_hold_something_else_are_refused(tmp_path):
    with pytest.raises(CurvboundError, match="no weights file"):
        read_weights(tmp_path / "missing.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not at all")
    with pytest.raises(CurvboundError, match="read safely"):
        read_weights(tmp_path / "broken.safetensors")
    torch.save({"epoch": 3, "model": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(CurvboundError, match="not a state_dict"):
        read_weights(tmp_path / "checkpoint.pt")
    (tmp_path / "training.json").write_text("{")
    with pytest.raises(CurvboundError, match=r"training\.json cannot be read"):
        RunFolder(tmp_path).load_record()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CurvboundError, match="choose another out"):
        RunFolder(tmp_path / "out").prepare()


def test_a_used_folder_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    folder.refuse_if_used()
    folder.save_state({})
    with pytest.raises(CurvboundError, match="unfinished"):
        folder.refuse_if_used()
    folder.finish({"w": torch.ones(1)}, {"format": 1})
    assert not folder.state.exists()
    assert json.loads(folder.record.read_text()) == {"format": 1}
    with pytest.raises(CurvboundError, match="already holds a finished"):
        folder.refuse_if_used()


def test_discard_removes_the_runs_files_and_no_others(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.prepare()
    write_weights(folder.init, {"w": torch.ones(1)})
    write_weights(folder.epoch(3), {"w": torch.ones(1)})
    folder.save_state({})
    (folder.path / "notes.txt").write_text("mine")
    folder.discard()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]
    (folder.path / "notes.txt").unlink()
    folder.discard()
    assert not folder.path.exists()


def test_leftovers_of_a_kill_are_cleared(tmp_path):
    (tmp_path / ".state.pt.part").write_bytes(b"half")
    RunFolder(tmp_path).prepare()
    assert list(tmp_path.iterdir()) == []


settings = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.text(max_size=1))


@given(settings, settings)
def test_one_difference_is_named_for_each_setting_that_differs(before, now):
    differing = {name for name in "abc" if before.get(name) != now.get(name)}
    assert {phrase.split()[0] for phrase in differences(before, now)} == differing
    assert {phrase.split()[0] for phrase in differences({"in": before}, {"in": now})} == {
        f"in.{name}" for name in differing
    }


def test_differences_name_the_place():
    found = list(
        differences({"recipe": {"lr": 0.1}, "seed": 0}, {"recipe": {"lr": 0.2}, "seed": 0})
    )
    assert found == ["recipe.lr was 0.1 and is now 0.2"]
