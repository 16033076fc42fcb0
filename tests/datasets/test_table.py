from pathlib import Path

import pytest

from curvbound.datasets import fit_scaling, load
from curvbound.errors import CurvboundError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_header_and_text_labels(path: Path) -> None:
    path.write_text("height,width,kind\n1,2.5,dog\n-3e1, 4 ,cat\n\n0,0,dog\n")
    data = load(path)
    assert data.class_names == ("cat", "dog")
    assert data.train.targets.tolist() == [1, 0, 1]
    assert data.train.inputs.tolist() == [[1.0, 2.5], [-30.0, 4.0], [0.0, 0.0]]
    assert data.test is None
    assert data.scaling.name == "none"


def test_no_header_and_numeric_labels(path: Path) -> None:
    path.write_text("\ufeff1,2,10\n3,4,9\n5,6,10\n", encoding="utf-8")
    data = load(path)
    assert data.class_names == ("9", "10")
    assert data.train.targets.tolist() == [1, 0, 1]
    assert len(data.train) == 3


def test_scaling_fitted_on_the_prior_part(path: Path) -> None:
    path.write_text("".join(f"{i},{i * i},{i % 2}\n" for i in range(40)))
    prior, bound = load(path).train.split(0.5, 0.5)
    scaling = fit_scaling(prior)
    assert scaling.fitted_on is not None
    assert bound.scaled(scaling).overlap(scaling.fitted_on) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("1\n2\n", "has one column"),
        ("1;2;a\n", "has one column"),
        ("1,2,a\n3,b\n", "line 2 has 2 fields where the first row has 3"),
        ("h,w,k\n1,2,a\n3,red,b\n", "line 3, column w holds the text 'red'"),
        ("1,2,a\n3,red,b\n", "line 2, column number 2 holds the text 'red'"),
        ("1,2,a\n3,,b\n", "line 2, column number 2 is missing a value"),
        ("1,2,a\nnan,1,b\n", "line 2, column number 1 holds the text 'nan'"),
        ("1,2,a\n1,inf,b\n", "column number 2 holds the text 'inf'"),
        ("red,2,a\n3,4,b\n", "line 1, column number 1 holds the text 'red'"),
        ("1,2,a\n3,4,\n", "without a label"),
        ("1,2,.5\n3,4,1\n", "labels must be classes"),
        ("1,2,a\n3,4,a\n", "have the label 'a': at least 2 classes"),
        ("1,2,a\n1e300,4,b\n", "NaN or infinite"),
        ("x,y,k\n", "column number 1 holds the text 'x'"),
    ],
)
def test_unusable_tables(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(CurvboundError, match=message):
        load(path)


def test_binary_content(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00\x01,\x80")
    with pytest.raises(CurvboundError, match="cannot read the table"):
        load(path)
