import json

from curvbound.papers.result import Pattern, Reproduction, rounded


def test_verdicts():
    assert [Pattern("", "", "", holds).verdict for holds in (True, False, None)] == [
        "yes",
        "no",
        "-",
    ]


def test_numbers_are_saved_as_they_are_and_rounded_on_request(tmp_path):
    found = Reproduction(
        "000", "t", "quick", 0, "x", [Pattern("a", "b", "c", True)], {"v": 0.123456789}
    )
    assert found.save(tmp_path) == {"json": str(tmp_path / "t-quick.json")}
    assert found.to_json()["patterns"][0]["verdict"] == "yes"
    assert json.loads((tmp_path / "t-quick.json").read_text())["results"]["v"] == 0.123456789
    assert rounded({1: (float("nan"), 123456.789, "s")}) == {"1": [None, 123457.0, "s"]}
