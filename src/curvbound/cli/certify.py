"""``curvbound certify``: from data and a network to a certificate, its check and a report."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvbound.cli import console
from curvbound.errors import CurvboundError

if TYPE_CHECKING:
    from torch import nn

    from curvbound.certificates import Certificate
    from curvbound.datasets import Dataset, Examples

_SMALL = 10_000


def certify(
    data: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Data set (see `curvbound data`) or a file.")
    ] = "digits",
    model: Annotated[
        str | None, typer.Option(metavar="NAME|MODULE:FACTORY", help="Network.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights; without them a network is trained.")
    ] = None,
    init: Annotated[Path | None, typer.Option(help="Weights the training started from.")] = None,
    prior: Annotated[
        str,
        typer.Option(
            metavar="init|split|FILE",
            help="Where the prior comes from: the initialisation, a split of the data, or weights "
            "trained on --prior-data. By default split, or init if --weights are given.",
        ),
    ] = "",
    prior_data: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Data that --prior was trained on.")
    ] = None,
    posterior: Annotated[
        str, typer.Option(help="isotropic, diagonal, neuron-block or kronecker.")
    ] = "kronecker",
    heldout: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Data the network never saw.")
    ] = None,
    tried: Annotated[int, typer.Option(help="Priors looked at so far; charged.")] = 1,
    delta: Annotated[float, typer.Option(help="Probability with which it may fail.")] = 0.05,
    budget: Annotated[str, typer.Option(help="quick, standard or thorough.")] = "standard",
    keep_mean: Annotated[
        bool, typer.Option("--keep-mean", help="Shape the noise only, around your network.")
    ] = False,
    recipe: Annotated[
        str | None, typer.Option(help="How to train; see `curvbound train --recipe list`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights, training, splits.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for certificates and report.", show_default="a new one"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
) -> None:
    """Say what can be proved about a network, check it, and write a report.

    Without arguments: trains on the embedded digits and certifies with a prior from a split, with
    a data-free prior beside it.

    Examples: `curvbound certify`, `curvbound certify --data mnist-2 --model F-600 --prior init`,
    `curvbound certify --data my.npz --model my.module:make --weights final.pt --init init.pt`
    """
    from curvbound import datasets

    say = _speaker(quiet or as_json)
    out = _folder(out, resume)
    say(f"loading {data}")
    dataset = datasets.load(data)
    job = _Job(dataset, seed, out, resume, recipe, say)
    shared: dict[str, Any] = {
        "posterior": posterior,
        "delta": delta,
        "tried": tried,
        "keep_mean": keep_mean,
        "budget": budget,
        "seed": seed,
        "progress": say,
    }
    held = None if heldout is None else datasets.load(heldout).train
    if weights is not None:
        found = {"certificate": job.given(model, weights, init, prior, prior_data, held, shared)}
    else:
        found = job.trained(model, prior or "split", held, shared)
    _finish(found, dataset, out, as_json=as_json, say=say)


class _Job:
    """The stages of the command, each of which can be resumed."""

    def __init__(
        self,
        dataset: "Dataset",
        seed: int,
        out: Path,
        resume: bool,
        recipe: str | None,
        say: Callable[[str], None],
    ) -> None:
        self.dataset, self.seed, self.out, self.resume = dataset, seed, out, resume
        small = len(dataset.train) < _SMALL
        self.recipe = recipe
        self.split_recipe = recipe or ("fast-small" if small else "fast")
        self.near: tuple[str, int | None] = ("fast-small", 8) if small else ("near", None)
        self.default_model = "F-40" if small else "F-600"
        self.say = say

    def network(self, spec: str | None) -> "nn.Module":
        from curvbound.cli.models import resolve_model

        return resolve_model(
            spec or self.default_model, self.dataset.shape, self.dataset.classes, seed=self.seed
        )

    def given(
        self,
        model: str | None,
        weights: Path,
        init: Path | None,
        prior: str,
        prior_data: str | None,
        held: "Examples | None",
        shared: dict[str, Any],
    ) -> "Certificate":
        """Certify weights the user brings."""
        from curvbound import datasets
        from curvbound.certificates import certify as issue
        from curvbound.cli.models import load_weights

        network = self.network(model)
        _load(network, load_weights(weights), weights)
        seen = None if prior_data is None else datasets.load(prior_data).train
        start: dict[str, Any] = {"prior_data": seen}
        if prior in ("", "init"):
            start["init"] = None if init is None else load_weights(init)
        elif prior == "split":
            raise CurvboundError(
                "A split prior trains the network itself: leave --weights out, or use --prior init."
            )
        else:
            start["prior"] = load_weights(Path(prior))
        return issue(network.eval(), self.dataset.train, heldout=held, **start, **shared)

    def trained(
        self, model: str | None, prior: str, held: "Examples | None", shared: dict[str, Any]
    ) -> dict[str, "Certificate"]:
        """Train and certify: by a split if asked for, and from the initialisation."""
        from curvbound.certificates import certify as issue

        if prior not in ("init", "split"):
            raise CurvboundError("--prior FILE certifies given weights: add --weights.")
        found = {}
        if prior == "split":
            found["certificate"] = issue(
                self.network(model), self.dataset.train, train=self._train_part, **shared
            )
        network = self.network(model)
        start = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        self.say(f"training on all {len(self.dataset.train):,} examples")
        recipe, epochs = (self.recipe, None) if self.recipe else self.near
        self._train(network, self.dataset.train, recipe, epochs, "network")
        free = issue(network.eval(), self.dataset.train, init=start, heldout=held, **shared)
        found["data-free" if prior == "split" else "certificate"] = free
        return found

    def _train_part(self, network: "nn.Module", part: "Examples") -> None:
        whole = len(part) == len(self.dataset.train)
        folder = "split-posterior" if whole else "split-prior"
        self._train(network, part, self.split_recipe, None, folder)

    def _train(
        self, network: "nn.Module", data: "Examples", recipe: str, epochs: int | None, folder: str
    ) -> None:
        from curvbound.training import train

        train(
            network,
            data,
            recipe,
            epochs=epochs,
            seed=self.seed,
            out=self.out / folder,
            resume=self.resume,
            progress=None if self.say is not _silent else False,
        )


def _finish(
    found: dict[str, "Certificate"],
    dataset: "Dataset",
    out: Path,
    *,
    as_json: bool,
    say: Callable[[str], None],
) -> None:
    """Save, verify, report, print."""
    from curvbound.certificates.verify import verify
    from curvbound.report import write_report

    say("verifying")
    checks = {}
    for name, certificate in found.items():
        path = certificate.save(out / f"{name}.json")
        checks[name] = verify(path, data=dataset.train)
        if not checks[name].ok:
            raise CurvboundError(f"The certificate {path} does not verify: {checks[name]}")
    main = found["certificate"]
    report = write_report(out / "report.html", found, checks)
    files = {**{name: str(out / f"{name}.json") for name in found}, "report": str(report)}
    text = "\n\n".join(
        f"{_title(name, len(found))}{certificate}" for name, certificate in found.items()
    )
    where = f"\n\nVerified and written to {out}: {', '.join(Path(f).name for f in files.values())}."
    console.emit({**main.summary(), "files": files}, as_json=as_json, text=text + where)


def _title(name: str, count: int) -> str:
    if count == 1:
        return ""
    return "PRIOR FROM A SPLIT. " if name == "certificate" else "DATA-FREE PRIOR. "


def _load(network: "nn.Module", state: dict[str, Any], path: Path) -> None:
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise CurvboundError(
            f"The weights in {path} do not fit the network: {str(error).splitlines()[-1].strip()}"
        ) from error


def _folder(out: Path | None, resume: bool) -> Path:
    """Where to write: what was asked for, or ``curvbound-out`` with a number if it is taken."""
    if out is not None:
        if (out / "certificate.json").exists() and not resume:
            raise CurvboundError(
                f"{out} already holds a certificate: choose another folder with --out, or go on "
                "with --resume."
            )
        return out
    names = (Path("curvbound-out" + (f"-{k}" if k > 1 else "")) for k in itertools.count(1))
    taken = list(itertools.takewhile(Path.exists, names))
    if resume and taken:
        return taken[-1]
    return Path("curvbound-out" + (f"-{len(taken) + 1}" if taken else ""))


def _silent(sentence: str) -> None:
    pass


def _speaker(quiet: bool) -> Callable[[str], None]:
    return _silent if quiet else lambda sentence: console.note(f"{sentence} ...")
