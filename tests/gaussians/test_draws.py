import torch

from curvbound.gaussians.draws import Draws, Kept


def draws(seed: int = 0) -> Draws:
    return Draws(torch.Generator().manual_seed(seed), 4, Kept(None))


def test_a_layer_that_repeats_gets_the_same_numbers_again():
    source = draws()
    first = torch.randn(5, generator=source.generator("a", repeats=True))
    other = torch.randn(5, generator=source.generator("b", repeats=False))
    again = torch.randn(5, generator=source.generator("a", repeats=True))
    after = torch.randn(5, generator=source.generator("c", repeats=False))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    # The second call of "a" does not move the stream that the others share.
    plain = torch.Generator().manual_seed(0)
    expected = [torch.randn(5, generator=plain) for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip((first, other, after), expected, strict=True))


def test_first_calls_are_known():
    source = draws()
    assert source.first_call("a")
    source.generator("a", repeats=False)
    assert not source.first_call("a")
    assert source.first_call("b")


def test_only_views_of_the_input_are_kept():
    x = torch.arange(6.0).view(2, 3)
    kept, calls = Kept(x), []

    def compute(tensor):
        calls.append(tensor)
        return tensor + 1, tensor + 2

    first = kept.moments("a", x.view(2, 3), compute)
    assert kept.moments("a", x.view(2, 3), compute) is first
    assert len(calls) == 1
    kept.moments("b", x, compute)  # another layer
    kept.moments("a", x.view(3, 2), compute)  # another shape
    kept.moments("a", x.clone(), compute)  # another tensor
    kept.moments("a", x.clone(), compute)
    assert len(calls) == 5
    x.add_(1.0)  # another content
    assert torch.equal(kept.moments("a", x.view(3, 2), compute)[0], x.view(3, 2) + 1)
    assert len(calls) == 6
