"""The certificate as it lies on disk: a JSON object with a published schema."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "PRIOR_NETWORK",
    "About",
    "Claim",
    "DataRecord",
    "HoldOut",
    "MonteCarlo",
    "PriorRecord",
    "Record",
    "Union",
]

About = Literal[
    "the randomised network", "one drawn network", "the majority vote", "the network itself"
]

PRIOR_NETWORK = "the network trained on the prior part"
"""Whom the hold-out bound of a split is about: the prior mean, on the data of the bound."""

Probability = Field(ge=0.0, le=1.0)
Delta = Field(gt=0.0, lt=1.0)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Claim(_Frozen):
    """One statement: with probability ``1 - delta``, the true error is at most ``bound``."""

    about: About
    bound: float = Probability
    delta: dict[str, Annotated[float, Delta]] = Field(min_length=1)
    risk: float = Field(ge=0.0, le=1.0, description="Empirical risk that entered the bound.")
    nats: float = Field(description="KL, or ln dQ/dP of the drawn network; 0 for hold-out bounds.")


class MonteCarlo(_Frozen):
    """How the empirical risk of the randomised network was measured."""

    independent: Literal["example", "batch"]
    counts: list[list[int]] = Field(description="Errors of every pass (row) and chunk (column).")
    chunk: int = Field(
        ge=1, le=2**31, description="Examples per chunk; part of how the noise is keyed."
    )
    seed: int
    methods: dict[str, str]
    limit: float = Probability

    @model_validator(mode="after")
    def _rectangular(self) -> "MonteCarlo":
        widths = {len(row) for row in self.counts}
        if len(widths) != 1 or 0 in widths:
            raise ValueError("the counts are not a table of passes and chunks")
        if any(not 0 <= count <= self.chunk for row in self.counts for count in row):
            raise ValueError("a count is negative or exceeds the examples of a chunk")
        return self


class Union(_Frozen):
    """What the choice of the prior cost, in nats."""

    precision: dict[str, float]
    largest: dict[str, float]
    indices: dict[str, int]
    tried: int = Field(ge=1)
    charges: dict[str, float]
    charge: float = Field(ge=0.0)


class PriorRecord(_Frozen):
    """Where the prior mean came from."""

    source: Literal["initialisation", "disjoint data"]
    hash: str
    specification: dict[str, Any] | None = None
    data_hash: str | None = None


class DataRecord(_Frozen):
    """The data the bound was computed on."""

    hash: str
    examples: int = Field(ge=1, le=2**40)
    classes: int = Field(ge=2)
    name: str
    repeated_rows: int = Field(
        default=0, description="Bound examples identical to one the prior has seen."
    )


class HoldOut(_Frozen):
    """The plain test-set bound beside a certificate (Clopper-Pearson), and whom it is about."""

    about: str
    bound: float = Probability
    errors: int = Field(ge=0)
    examples: int = Field(ge=1, le=2**40)
    delta: float = Delta


class Record(_Frozen):
    """Everything a certificate says. Weights and covariances lie in a safetensors file beside it.

    ``claims[0]`` is the main one. Each claim holds with its own confidence; whoever picks the
    smallest of several afterwards must add up their deltas.
    """

    format: Literal["curvbound-certificate/1"] = "curvbound-certificate/1"
    kind: Literal["certificate"] = "certificate"
    claims: list[Claim] = Field(min_length=1)
    data: DataRecord
    kl_layers: dict[str, float] = Field(default_factory=dict)
    prior: PriorRecord | None = None
    posterior_hash: str | None = None
    network_hash: str | None = Field(
        default=None, description="Content hash of the one network a hold-out certificate is about."
    )
    posterior_structure: str | None = None
    union: Union | None = None
    monte_carlo: MonteCarlo | None = None
    drawn_errors: int | None = None
    holdout: HoldOut | None = None
    mean_moved: bool = False
    agreement: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Share of the data on which the mean network and the user's agree.",
    )
    looseness: dict[str, float] = Field(default_factory=dict)
    assumptions: list[str]
    network: dict[str, Any] | None = Field(
        default=None, description="Arguments of networks.build, for a network of that list."
    )
    settings: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str]
    seconds: float = Field(ge=0.0)
    distributions: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="What kind the prior and the posterior are of."
    )
    tensors: str | None = Field(default=None, description="SHA-256 of the safetensors file.")
