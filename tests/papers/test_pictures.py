from curvbound.certificates.pareto import BASELINE, LOWER_BOUND, Point
from curvbound.papers.pictures import accuracy_complexity, panels, save


def point(method, accuracy, complexity):
    return Point(method, "heuristic", 1.0, 1.0, accuracy, 0.0, complexity, 0.0)


def picture():
    figure, axes = panels(["one", "two", "three"])
    points = {
        LOWER_BOUND: [point(LOWER_BOUND, 0.6, 0.2), point(LOWER_BOUND, 0.9, 0.4)],
        BASELINE: [point(BASELINE, 0.8, 9.0), point(BASELINE, 0.7, 9.5)],
    }
    accuracy_complexity(axes[0], points, 2)
    return figure, axes


def test_axes_are_labelled_and_show_pareto_points_only():
    _, axes = picture()
    assert len(axes) == 3
    assert axes[0].get_title() == "one"
    assert "accuracy" in axes[0].get_xlabel()
    assert "KL" in axes[0].get_ylabel()
    lines = {line.get_label(): line for line in axes[0].get_lines()}
    assert list(lines["baseline (heuristic)"].get_xdata()) == [0.8]
    assert list(lines["error bound = 1"].get_ydata()) == [0, 1]
    assert axes[0].get_ylim()[1] < 2  # far points do not squeeze the interesting part


def test_files_are_the_same_for_the_same_picture(tmp_path):
    for name in ("a", "b"):
        save(picture()[0], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
