import torch

from curvbound.datasets import Origin


def test_overlap_counts_common_rows_of_one_root() -> None:
    root = Origin("a", 10)
    first, second = root.take(torch.tensor([0, 3, 5])), root.take(torch.tensor([5, 5, 9, 0]))
    assert first.overlap(second) == second.overlap(first) == 2
    assert root.overlap(first) == 3
    assert root.overlap(root) == 10


def test_different_roots_never_overlap() -> None:
    assert Origin("a", 10).overlap(Origin("b", 10)) == 0


def test_nested_selection_refers_to_the_root() -> None:
    nested = Origin("a", 10).take(torch.tensor([2, 4, 6, 8])).take(torch.tensor([3, 0]))
    assert nested.rows is not None
    assert nested.rows.tolist() == [8, 2]
