"""Data sets in CSV tables."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.examples import Examples
from curvbound.datasets.labels import classes_of_text, number_text_labels
from curvbound.errors import CurvboundError

__all__ = ["load_csv"]


def load_csv(path: Path) -> Dataset:
    """A comma-separated table: numbers, and the label in the last column.

    A first row without any number before its last field is a header. Labels are text or whole
    numbers; sorted, they are the classes 0 to C-1. The values are taken as they are: see
    `fit_scaling` for scaling them without looking at bound data.

    Raises:
        CurvboundError: If the file cannot be read, a row has another length than the first, or
            a value is missing or not a finite number.
    """
    rows, lines = _read(path)
    header = rows[0]
    if len(rows) > 1 and not any(_is_number(field) for field in header[:-1]):
        rows, lines = rows[1:], lines[1:]
    else:
        header = [f"number {column}" for column in range(1, len(header) + 1)]
    inputs = _numbers([row[:-1] for row in rows], lines, header, path)
    texts = np.array([row[-1] for row in rows], dtype=np.str_)
    class_names = classes_of_text(texts, path.name)
    examples = Examples(
        torch.from_numpy(inputs).to(torch.float32),
        torch.from_numpy(number_text_labels(texts, class_names, path.name)),
        max(2, len(class_names)),
        path.name,
    )
    return Dataset(str(path), examples, None, class_names, "CSV table", str(path))


def _read(path: Path) -> tuple[list[list[str]], list[int]]:
    """The rows that are not blank, and their line numbers."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True)
            for fields in reader:
                if fields:
                    rows.append([field.strip() for field in fields])
                    lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CurvboundError(f"cannot read the table {path}: {error}") from error
    if not rows:
        raise CurvboundError(f"{path} is empty: it has no rows")
    width = len(rows[0])
    if width < 2:
        raise CurvboundError(
            f"{path} has one column: it needs comma-separated inputs and a label in the last column"
        )
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise CurvboundError(
                f"{path}, line {line} has {len(row)} fields where the first row has {width}"
            )
    return rows, lines


def _numbers(
    rows: list[list[str]], lines: list[int], header: list[str], path: Path
) -> NDArray[np.float64]:
    try:
        values = np.array(rows, dtype=np.float64)
    except ValueError:
        bad = np.array([[not _is_number(field) for field in row] for row in rows])
    else:
        bad = ~np.isfinite(values)
        if not bad.any():
            return values
    row, column = np.argwhere(bad)[0]
    field = rows[row][column]
    problem = f"holds the text {field!r}" if field else "is missing a value"
    raise CurvboundError(
        f"{path}, line {lines[row]}, column {header[column]} {problem}: all columns but the last "
        "must hold finite numbers"
    )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
