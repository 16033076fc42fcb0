import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curvbound.datasets import Examples
from curvbound.errors import CurvboundError


def make(rows: int = 40, classes: int = 10, seed: int = 0) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    return Examples(
        torch.rand(rows, 1, 2, 3, generator=generator),
        torch.randint(classes, (rows,), generator=generator),
        classes,
        "made",
    )


def rows_of(part: Examples) -> list[int]:
    assert part.origin is not None
    assert part.origin.rows is not None
    return part.origin.rows.tolist()


def test_unpacks_and_counts() -> None:
    examples = make()
    inputs, targets = examples
    assert inputs is examples.inputs
    assert targets is examples.targets
    assert len(examples) == 40
    assert examples.shape == (1, 2, 3)
    assert sum(examples.class_counts) == 40
    assert len(examples.class_counts) == 10


@pytest.mark.parametrize(
    ("inputs", "targets", "classes", "message"),
    [
        (torch.empty(0, 3), torch.empty(0, dtype=torch.int64), 2, "empty"),
        (torch.empty(2, 0), torch.tensor([0, 1]), 2, "empty"),
        (torch.rand(2, 3), torch.tensor([0, 2]), 2, r"label 2, out of range.*0 to 1"),
        (torch.rand(2, 3), torch.tensor([-1, 1]), 2, "label -1, out of range"),
        (torch.rand(2, 3), torch.tensor([0, 0]), 1, "1 class: at least 2"),
        (torch.rand(2, 3), torch.tensor([0, 1, 1]), 2, "2 inputs but 3 labels"),
        (torch.rand(2, 3), torch.tensor([0.0, 1.0]), 2, "int64 vector"),
        (torch.rand(2, 3), torch.tensor([[0], [1]]), 2, "int64 vector"),
        (torch.ones(2, 3, dtype=torch.uint8), torch.tensor([0, 1]), 2, "floating point"),
        (torch.rand(2), torch.tensor([0, 1]), 2, "floating point with one row"),
        (torch.tensor([[1.0], [float("nan")]]), torch.tensor([0, 1]), 2, "NaN.*row 1"),
        (torch.tensor([[float("inf")], [1.0]]), torch.tensor([0, 1]), 2, "infinite.*row 0"),
    ],
)
def test_bad_content(
    inputs: torch.Tensor, targets: torch.Tensor, classes: int, message: str
) -> None:
    with pytest.raises(CurvboundError, match=message):
        Examples(inputs, targets, classes)


def test_huge_finite_inputs_are_allowed() -> None:
    Examples(torch.full((4, 2), 3e38), torch.tensor([0, 1, 0, 1]), 2)


def test_hash_is_of_dtype_shape_bytes_and_classes() -> None:
    examples = Examples(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]), 2)
    inputs = b"\x00\x00\x80?\x00\x00\x00@"
    targets = bytes(8) + b"\x01" + bytes(7)
    content = b"examples classes=2 torch.float32 (2, 1) " + inputs
    assert examples.hash == hashlib.sha256(content + b" torch.int64 (2,) " + targets).hexdigest()


def test_hash_ignores_layout_and_name() -> None:
    examples = make()
    inputs = examples.inputs.transpose(0, 3).contiguous().transpose(0, 3)
    targets = torch.stack([examples.targets, examples.targets], 1)[:, 0]
    assert not inputs.is_contiguous()
    assert Examples(inputs, targets, 10, "other").hash == examples.hash


def test_hash_is_the_same_over_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make().hash
    monkeypatch.setattr("curvbound.datasets.examples.HASH_BYTES", 50)
    assert make().hash == whole


@given(st.integers(0, 239), st.integers(0, 39))
def test_hash_changes_with_one_pixel_or_label(pixel: int, row: int) -> None:
    examples = make()
    inputs, targets = examples.inputs.clone(), examples.targets.clone()
    inputs.view(-1)[pixel] += 0.5
    targets[row] = (targets[row] + 1) % 10
    assert Examples(inputs, examples.targets, 10).hash != examples.hash
    assert Examples(examples.inputs, targets, 10).hash != examples.hash
    assert Examples(examples.inputs, examples.targets, 11).hash != examples.hash
    assert Examples(examples.inputs.double(), examples.targets, 10).hash != examples.hash


@given(
    st.integers(2, 60), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 9999)
)
def test_split_by_counts(rows: int, counts: list[int], seed: int) -> None:
    examples = make(rows)
    if sum(counts) > rows:
        with pytest.raises(CurvboundError, match="do not fit"):
            examples.split(*counts, seed=seed)
        return
    parts = examples.split(*counts, seed=seed)
    assert [len(part) for part in parts] == counts
    used = [row for part in parts for row in rows_of(part)]
    assert len(set(used)) == len(used)
    for part in parts:
        assert torch.equal(part.inputs, examples.inputs[rows_of(part)])
        assert torch.equal(part.targets, examples.targets[rows_of(part)])
        assert part.overlap(examples) == len(part)
    assert all(a.overlap(b) == 0 for a in parts for b in parts if a is not b)


@given(st.integers(3, 200), st.integers(1, 9), st.integers(0, 9999))
def test_split_by_fractions_uses_every_row(rows: int, tenths: int, seed: int) -> None:
    first = tenths / 10
    if not 0 < round(first * rows) < rows:
        return
    parts = make(rows).split(first, 1 - first, seed=seed)
    assert sorted(rows_of(parts[0]) + rows_of(parts[1])) == list(range(rows))
    assert len(parts[0]) == round(first * rows)


def test_thirds_use_every_row() -> None:
    assert sum(len(part) for part in make(100).split(1 / 3, 1 / 3, 1 / 3)) == 100


def test_split_depends_on_the_seed_alone() -> None:
    examples = make()
    again = Examples(torch.rand_like(examples.inputs), 9 - examples.targets, 10)
    assert rows_of(examples.split(0.5, seed=3)[0]) == rows_of(again.split(0.5, seed=3)[0])
    assert rows_of(examples.split(0.5, seed=3)[0]) != rows_of(examples.split(0.5, seed=4)[0])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((), "whole numbers or as fractions"),
        ((0.5, 3), "whole numbers or as fractions"),
        ((0.6, 0.6), "do not fit"),
        ((20, 21), "do not fit"),
        ((0, 5), "at least one"),
        ((0.001,), "at least one"),
        ((-5, 10), "at least one"),
        ((float("nan"),), "do not fit"),
    ],
)
def test_impossible_splits(sizes: tuple[float, ...], message: str) -> None:
    with pytest.raises(CurvboundError, match=message):
        make().split(*sizes)


def test_overlap_survives_every_change_that_keeps_rows() -> None:
    examples = make()
    first, second = examples.split(0.5, 0.5)
    changed = [
        first.merge(2),
        first.random_labels(1),
        first.label_noise(0.5, 1),
        first.scaled((0.5, 0.5)),
        first.take([0, 1, 2]),
        first.split(0.5)[0],
    ]
    for part in changed:
        assert part.overlap(first) == len(part)
        assert part.overlap(second) == 0
    assert examples.merge(2).split(0.5)[0].overlap(examples) == 20


def test_take_keeps_order_and_refuses_other_rows() -> None:
    examples = make()
    assert torch.equal(examples.take([5, 2]).targets, examples.targets[[5, 2]])
    for rows in ([40], [-1]):
        with pytest.raises(CurvboundError, match="rows 0 to 39"):
            examples.take(rows)
    with pytest.raises(CurvboundError, match="empty"):
        examples.take([])


def test_merging_ten_classes() -> None:
    labels = torch.arange(10)
    ten = Examples(torch.rand(10, 1), labels, 10)
    assert ten.merge(2).targets.tolist() == [0] * 5 + [1] * 5
    assert ten.merge(5).targets.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert ten.merge(10).targets.tolist() == labels.tolist()


@given(st.integers(2, 30), st.integers(2, 30))
def test_merging_is_monotone_onto_and_balanced(classes: int, merged: int) -> None:
    examples = Examples(torch.rand(classes, 1), torch.arange(classes), classes)
    if merged > classes:
        with pytest.raises(CurvboundError, match=f"choose 2 to {classes}"):
            examples.merge(merged)
        return
    result = examples.merge(merged)
    assert result.classes == merged
    assert result.targets.tolist() == sorted(result.targets.tolist())
    assert max(result.class_counts) - min(result.class_counts) <= 1


def test_random_labels_are_uniform_and_independent_of_the_true_ones() -> None:
    examples = make(20000)
    drawn = examples.random_labels(1)
    assert drawn.inputs is examples.inputs
    # 5 standard deviations of a count of 2000, and of an agreement of 1/10.
    assert all(abs(count - 2000) < 5 * 43 for count in drawn.class_counts)
    agreement = (drawn.targets == examples.targets).double().mean()
    assert abs(float(agreement) - 0.1) < 5 * 0.0022
    assert torch.equal(drawn.targets, examples.random_labels(1).targets)
    assert not torch.equal(drawn.targets, examples.random_labels(2).targets)


def test_label_noise_changes_the_expected_share() -> None:
    examples = make(20000)
    changed = (examples.label_noise(0.3, 5).targets != examples.targets).double().mean()
    assert abs(float(changed) - 0.27) < 5 * 0.0032
    assert torch.equal(examples.label_noise(0.0, 5).targets, examples.targets)
    agreement = (examples.label_noise(1.0, 5).targets == examples.targets).double().mean()
    assert abs(float(agreement) - 0.1) < 5 * 0.0022


def test_noise_is_not_tied_to_the_split_of_the_same_seed() -> None:
    examples = make(20000)
    first, second = examples.split(0.5, 0.5, seed=7)
    noisy = examples.label_noise(0.5, 7).targets != examples.targets
    shares = [float(noisy[rows_of(part)].double().mean()) for part in (first, second)]
    assert abs(shares[0] - shares[1]) < 5 * 0.0071


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_noise_rate_out_of_range(rate: float) -> None:
    with pytest.raises(CurvboundError, match="between 0 and 1"):
        make().label_noise(rate)


def test_negative_seed() -> None:
    with pytest.raises(CurvboundError, match="seed must not be negative"):
        make().random_labels(-1)


def test_global_random_state_is_untouched() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    make().split(0.5)
    make().random_labels(1)
    assert torch.equal(torch.rand(1), expected)


def test_scaling_is_applied_once_and_recorded() -> None:
    examples = make()
    scaled = examples.scaled("symmetric")
    assert torch.equal(scaled.inputs, (examples.inputs - 0.5) / 0.5)
    assert scaled.scaling.name == "symmetric"
    with pytest.raises(CurvboundError, match="already scaled"):
        scaled.scaled("unit")


@pytest.mark.parametrize("value", [-0.01, 1.01])
def test_pixel_scalings_refuse_what_is_not_between_0_and_1(value: float) -> None:
    examples = Examples(torch.tensor([[value], [0.5]]), torch.tensor([0, 1]), 2)
    with pytest.raises(CurvboundError, match="pixels between 0 and 1"):
        examples.scaled("unit")
    examples.scaled("none")
    examples.scaled((0.5, 0.5))


def test_to_another_device_keeps_everything() -> None:
    part = make().split(0.5)[0]
    moved = part.to("cpu")
    assert moved.hash == part.hash
    assert moved.overlap(part) == len(part)
