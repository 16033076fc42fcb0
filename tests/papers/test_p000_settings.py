from curvbound.papers.p000_settings import MORE_CLASSES, PROFILES, TWO_CLASSES


def test_networks_and_grids_are_those_of_the_paper():
    tasks = [*TWO_CLASSES, *MORE_CLASSES]
    assert {t.network for t in tasks if t.data.startswith("mnist")} == {"F-300^2"}
    assert {t.network for t in tasks if t.data.startswith("cifar")} == {"F-200^2"}
    assert [t.data for t in tasks if not t.provable] == ["cifar10-2", "cifar10-5", "cifar10"]
    for profile in PROFILES.values():
        for grid in (profile.scales, profile.betas, profile.oracle_betas):
            assert list(grid) == sorted(set(grid))
    assert PROFILES["full"].seen is None
    assert not PROFILES["full"].shortened
