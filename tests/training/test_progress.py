import io

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from curvbound.training.progress import TrainingBar, training_bar


def test_nothing_is_shown_unless_somebody_looks(capsys):
    for wanted in (None, False):
        with training_bar(wanted, epochs=2, steps=3, done=0) as bar:
            assert not bar.shown
            bar.update(1, 0.5, 0.1)
            bar.test(0.2)
    assert capsys.readouterr().err == ""


def test_a_bar_can_be_forced(capsys):
    with training_bar(True, epochs=2, steps=3, done=0) as bar:
        assert bar.shown
        bar.update(6, 0.25, 0.1)
    assert "loss 0.2500" in capsys.readouterr().err


@pytest.mark.parametrize(("done", "shown"), [(0, "epoch 1/2"), (3, "epoch 2/2"), (6, "epoch 2/2")])
def test_it_says_where_training_is(done, shown):
    console = Console(file=io.StringIO(), width=100)
    columns = (TextColumn("{task.description}"), TextColumn("{task.fields[status]}"))
    display = Progress(*columns, console=console, disable=False)
    bar = TrainingBar(display, 2, 3, 0)
    bar.test(0.125)
    bar.update(done, 0.5, 0.25)
    console.print(display)
    assert shown in console.file.getvalue()
    assert "loss 0.5000  error 25.00%  test 12.50%" in console.file.getvalue()
