from curvbound.certificates import Certificate
from curvbound.certificates.text import advice, describe


def test_a_split_is_told_with_ledger_looseness_and_the_bound_beside_it(by_split):
    text = describe(by_split)
    assert text.splitlines()[0] == by_split.sentence
    assert "also: With confidence 95 %, one drawn network has a true error of at most" in text
    assert "delta: PAC-Bayes 0.04, Monte Carlo 0.01" in text
    for source in (
        "empirical risk",
        "Monte Carlo",
        "KL of fc1",
        "choice of the prior",
        "confidence",
    ):
        assert source in text
    assert "plain hold-out bound" in text
    assert "for the network trained on the prior part" in text
    assert "the posterior mean was moved; they agree on" in text


def test_a_hold_out_certificate_is_told_without_a_prior(by_heldout):
    text = describe(by_heldout)
    assert "the network itself has a true error of at most" in text
    assert "prior:" not in text


def test_advice_is_given_only_where_the_bound_says_little(by_init):
    def at(bound):
        claim = by_init.claim.model_copy(update={"bound": bound})
        return Certificate(by_init.record.model_copy(update={"claims": [claim]}))

    assert advice(at(0.5)) == []
    hints = advice(at(0.95))
    assert hints[0].startswith("the bound is not below chance")
    assert any("prior from disjoint data" in hint for hint in hints)
