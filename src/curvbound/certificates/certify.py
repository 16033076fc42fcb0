"""One call from a trained network to a certificate."""

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from curvbound.bounds import DeltaLedger, LogGrid, clopper_pearson, error_rate
from curvbound.certificates.architecture import rebuild
from curvbound.certificates.certificate import Certificate
from curvbound.certificates.claims import mistakes
from curvbound.certificates.inputs import (
    as_examples,
    count_repeated_rows,
    halves,
    require_disjoint,
    require_fixed_scaling,
)
from curvbound.certificates.issue import Request, issue
from curvbound.certificates.preparation import Prepared, prepare
from curvbound.certificates.prior import Prior, quiet_grids, require_untrained
from curvbound.certificates.record import (
    PRIOR_NETWORK,
    Claim,
    DataRecord,
    HoldOut,
    Record,
)
from curvbound.certificates.shape import check_structure
from curvbound.certificates.storage import state_hash
from curvbound.certificates.versions import versions
from curvbound.datasets import Examples
from curvbound.errors import CurvboundError

__all__ = ["certify"]

State = Mapping[str, Tensor]

_NO_PRIOR = (
    "Nothing can be certified from a trained network and its training data alone: give the "
    "initialisation it started from (init=), data it never saw (heldout=), a network trained on "
    "disjoint data (prior= with prior_data=), or a recipe to train by on a split (train=)."
)


def certify(
    model: nn.Module,
    data: Any,
    *,
    init: State | nn.Module | None = None,
    heldout: Any = None,
    prior: State | nn.Module | None = None,
    prior_data: Any = None,
    train: Any = None,
    posterior: str = "kronecker",
    delta: float = 0.05,
    tried: int = 1,
    keep_mean: bool = False,
    budget: str = "standard",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Certificate:
    """Say what can be proved about a network's true error.

    Exactly one of ``init``, ``prior`` with ``prior_data``, or ``train`` makes the prior of a
    PAC-Bayes certificate; ``heldout`` alone gives a test-set bound about the network itself, and
    beside the others the hold-out bound to compare with.

    Args:
        model: The trained network (for ``train``, an untrained one). It is not changed.
        data: The data the bound is computed on: Examples, a data set, ``(X, y)`` or a DataLoader.
        init: State dict the training started from, drawn without data. A network that was
            pre-trained on other data needs ``prior_data`` to say on what.
        heldout: Data the network never saw.
        prior: State dict trained on ``prior_data``, which must be disjoint from ``data``.
        prior_data: What ``prior`` (or a pre-trained ``init``) was trained on.
        train: A training recipe (name, ``Recipe``, or a function of network and data): half of
            the data trains the prior, the other half carries the bound.
        posterior: Covariance structure: isotropic, diagonal, neuron-block or kronecker.
        delta: Probability with which the statement may fail.
        tried: How many priors (architectures, seeds, shapes) were looked at; charged.
        keep_mean: Keep the posterior mean where the network is, shaping only the noise.
        budget: How long to look for a good posterior: quick, standard or thorough.
        seed: Seed of splits, training and estimates (the certifying draws have their own).
        progress: Called with a sentence when a new stage begins.

    Raises:
        CurvboundError: If nothing can be certified this way; the message says what to do.
    """
    _check_numbers(delta, tried)
    ways = [init is not None, prior is not None, train is not None]
    if sum(ways) > 1 and not (init is not None and train is not None and prior is None):
        raise CurvboundError("Give one of init=, prior= and train=, not several: one prior counts.")
    if prior_data is not None and (train is not None or not any(ways)):
        raise CurvboundError(
            "prior_data= says what prior= or init= was trained on: give it with one of these."
        )
    request = Request(
        structure=check_structure(posterior),
        delta=delta,
        keep_mean=keep_mean,
        budget=budget,
        seed=seed,
        started=time.perf_counter(),
        say=progress or (lambda sentence: None),
    )
    if not any(ways) and heldout is None:
        raise CurvboundError(_NO_PRIOR)
    examples = as_examples(data)
    held, unseen = None, None
    if heldout is not None:
        unseen = as_examples(heldout, "held-out data", examples.classes)
        require_disjoint(examples, unseen, "training data")
    if train is not None:
        return _by_split(model, examples, init, train, unseen, tried, request)
    if unseen is not None:
        held = _hold_out(model, unseen, delta, "the network itself")
        if not any(ways) and tried > 1:
            raise CurvboundError(
                f"tried= charges for priors; if the network is the best of {tried} on the held-out "
                f"data, ask for delta={delta / tried:.3g} instead."
            )
        if not any(ways):
            return _from_holdout(model, held, unseen, request)
    require_fixed_scaling(examples)
    start, name = (init, "the initialisation") if init is not None else (prior, "the prior")
    assert start is not None
    prepared = prepare(model, start, name)
    if prior is not None and prior_data is None:
        raise CurvboundError(
            "A trained prior needs prior_data=, the data it was trained on, so that they can be "
            "shown to be disjoint from the bound data."
        )
    if prior_data is None:
        require_untrained(prepared, examples)
        family = Prior.from_initialisation(
            prepared.start, tried=tried, specification=_regenerates(model, prepared)
        )
        return issue(prepared, family, examples, request, holdout=held, network=_built(model))
    seen = as_examples(prior_data, "prior data", examples.classes)
    family, repeated = _disjoint_prior(prepared, seen, examples, tried, request)
    return issue(
        prepared, family, examples, request, holdout=held, network=_built(model), repeated=repeated
    )


def _by_split(
    model: nn.Module,
    examples: Examples,
    init: State | nn.Module | None,
    train: Any,
    unseen: Examples | None,
    tried: int,
    request: Request,
) -> Certificate:
    require_fixed_scaling(examples)
    first, second = halves(examples, request.seed)
    start = prepare(model, model if init is None else init, "the initialisation")
    require_untrained(start, second)
    request.say(f"training the prior on {len(first):,} examples")
    prior_network = copy.deepcopy(model)
    if init is not None:
        state = init.state_dict() if isinstance(init, nn.Module) else init
        prior_network.load_state_dict(dict(state))
    _run_training(train, prior_network, first, request.seed)
    request.say(f"training the posterior on all {len(examples):,} examples")
    network = copy.deepcopy(prior_network)
    _run_training(train, network, examples, request.seed)
    prepared = prepare(network, prior_network, "the prior")
    family, repeated = _disjoint_prior(prepared, first, second, tried, request)
    if unseen is None:
        held = _hold_out(prior_network, second, request.delta, PRIOR_NETWORK)
    else:
        held = _hold_out(network, unseen, request.delta, "the network trained on all the data")
    return issue(
        prepared, family, second, request, holdout=held, network=_built(model), repeated=repeated
    )


def _run_training(train: Any, network: nn.Module, data: Examples, seed: int) -> None:
    if callable(train):
        train(network, data)
        return
    from curvbound.training import train as train_by_recipe

    train_by_recipe(network, data, train, seed=seed, progress=False)


def _disjoint_prior(
    prepared: Prepared, seen: Examples, bound: Examples, tried: int, request: Request
) -> tuple[Prior, int]:
    require_disjoint(seen, bound)
    grids: Mapping[str, LogGrid] = quiet_grids(prepared, seen)
    prior = Prior(prepared.start, "disjoint data", grids, tried, seen.hash)
    return prior, count_repeated_rows(seen, bound)


def _hold_out(model: nn.Module, held: Examples, delta: float, about: str) -> HoldOut:
    require_fixed_scaling(held)
    errors = mistakes(copy.deepcopy(model).eval(), held)
    return HoldOut(
        about=about,
        bound=clopper_pearson(errors, len(held), delta),
        errors=errors,
        examples=len(held),
        delta=delta,
    )


def _from_holdout(
    model: nn.Module, held: HoldOut, unseen: Examples, request: Request
) -> Certificate:
    network = copy.deepcopy(model).eval()
    claim = Claim(
        about="the network itself",
        bound=held.bound,
        delta={"hold-out": held.delta},
        risk=error_rate(held.errors, held.examples),
        nats=0.0,
    )
    record = Record(
        claims=[claim],
        data=DataRecord(
            hash=unseen.hash, examples=len(unseen), classes=unseen.classes, name=unseen.name
        ),
        network_hash=state_hash(network.state_dict()),
        holdout=held,
        assumptions=[
            "the held-out examples are independent draws from the distribution of interest",
            "the network was chosen without looking at them",
        ],
        network=_built(model),
        versions=versions(),
        seconds=time.perf_counter() - request.started,
    )
    return Certificate(record, model=network)


def _built(model: nn.Module) -> dict[str, Any] | None:
    """How to build the network again, if all of it is in the posterior or drawn from a seed."""
    from curvbound.networks import specification

    found = specification(model)
    frozen = any(not parameter.requires_grad for parameter in model.parameters())
    return None if found is None or frozen else dict(found)


def _regenerates(model: nn.Module, prepared: Prepared) -> dict[str, Any] | None:
    """How to draw the initialisation again, if that gives the very weights that were passed."""
    found = _built(model)
    if found is None:
        return None
    again = prepare(model, rebuild(found), "the initialisation").start
    same = all(torch.equal(again[name], tensor) for name, tensor in prepared.start.items())
    return found if same else None


def _check_numbers(delta: float, tried: int) -> None:
    DeltaLedger(delta)  # refuses what is no probability
    if isinstance(tried, bool) or not isinstance(tried, int) or tried < 1:
        raise CurvboundError(f"tried must be a whole number of at least 1, not {tried}.")
