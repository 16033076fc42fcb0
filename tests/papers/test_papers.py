import pytest

from curvbound import CurvboundError
from curvbound.papers import items, reproduce


def test_every_item_is_a_function():
    assert all(callable(function) for function in items().values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("999", "fig2"), "no paper '999'"),
        (("000", "fig9"), "choose one of fig2, fig3, fig4"),
        (("000", "fig2", "slow"), "choose quick or full"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(CurvboundError, match=message):
        reproduce(*arguments)
