"""Layer blocks: the trainable parameters of a network grouped by the module that owns them."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

__all__ = ["ROOT", "LayerBlock", "LayerUse", "layer_blocks", "parameter_slices"]

ROOT = "(model)"
"""Name of the block of parameters that the model owns itself, not one of its children."""

_KINDS: tuple[tuple[str, tuple[type[nn.Module], ...]], ...] = (
    ("linear", (nn.Linear,)),
    ("conv", (nn.Conv1d, nn.Conv2d, nn.Conv3d)),
    ("batch_norm", (nn.modules.batchnorm._BatchNorm,)),
    ("layer_norm", (nn.LayerNorm,)),
    ("group_norm", (nn.GroupNorm,)),
    ("embedding", (nn.Embedding,)),
    ("attention", (nn.MultiheadAttention,)),
    ("recurrent", (nn.RNNBase,)),
)


@dataclass
class LayerUse:
    """How the forward pass used a module.

    Attributes:
        calls: Times the module ran in one forward pass; 0 when its parameters are used otherwise.
        positions: Places per example and call that share the weights: 1 for a dense layer on
            vectors, the output pixels of a convolution, the length of a sequence.
    """

    calls: int = 0
    positions: int = 1


@dataclass(frozen=True)
class LayerBlock:
    """The trainable parameters of one module, contiguous in the flat parameter vector.

    Weights are flattened row-major, ``(out, in)`` for dense layers and ``(out, in * kernel)`` for
    convolutions, so that the layer's Hessian is E[M kron x x^T] (001 eq. 5).

    Attributes:
        name: Path of the module in the network (``ROOT`` for the network itself).
        module: The module.
        kind: ``linear``, ``conv``, ``batch_norm``, ``layer_norm``, ``group_norm``, ``embedding``,
            ``attention``, ``recurrent`` or ``other``.
        parameters: Full names of its trainable parameters, in order.
        slices: Where each of them lies in the flat parameter vector.
        weight: Full name of the trainable weight, if there is one.
        bias: Full name of the trainable bias, if there is one.
        calls: Times the module ran in one forward pass (see :class:`LayerUse`).
        positions: Places per example and call that share the weights.
        tied: Whether another module uses one of these parameters too.
    """

    name: str
    module: nn.Module
    kind: str
    parameters: tuple[str, ...]
    slices: Mapping[str, slice]
    weight: str | None
    bias: str | None
    calls: int
    positions: int
    tied: bool

    @property
    def slice(self) -> slice:
        """Where the block lies in the flat parameter vector."""
        starts = [part.start for part in self.slices.values()]
        return slice(min(starts), max(part.stop for part in self.slices.values()))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(part.stop - part.start for part in self.slices.values())

    @property
    def used_once(self) -> bool:
        """Whether one call of one module is all that touches the parameters."""
        return self.calls == 1 and not self.tied


def parameter_slices(parameters: Mapping[str, Tensor]) -> dict[str, slice]:
    """Positions of named tensors in their concatenation.

    >>> import torch
    >>> parameter_slices({"w": torch.zeros(2, 3), "b": torch.zeros(2)})
    {'w': slice(0, 6, None), 'b': slice(6, 8, None)}
    """
    slices, start = {}, 0
    for name, tensor in parameters.items():
        slices[name] = slice(start, start + tensor.numel())
        start += tensor.numel()
    return slices


def layer_kind(module: nn.Module) -> str:
    """Kind of a module by its class, ``other`` for what has no special treatment."""
    return next((kind for kind, classes in _KINDS if isinstance(module, classes)), "other")


def layer_blocks(
    model: nn.Module, parameters: Mapping[str, Tensor], use: Mapping[nn.Module, LayerUse]
) -> dict[str, LayerBlock]:
    """Group ``parameters`` (trainable, by full name) by owning module, in parameter order."""
    slices = parameter_slices(parameters)
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in module._parameters.values():
            if tensor is not None:
                owners[id(tensor)] = owners.get(id(tensor), 0) + 1

    grouped: dict[str, list[str]] = {}
    for name in parameters:
        grouped.setdefault(name.rpartition(".")[0], []).append(name)

    blocks = {}
    for path, names in grouped.items():
        module = model.get_submodule(path)
        local = {name.rpartition(".")[2]: name for name in names}
        used = use.get(module, LayerUse())
        blocks[path or ROOT] = LayerBlock(
            name=path or ROOT,
            module=module,
            kind=layer_kind(module),
            parameters=tuple(names),
            slices={name: slices[name] for name in names},
            weight=local.get("weight"),
            bias=local.get("bias"),
            calls=used.calls,
            positions=used.positions,
            tied=any(owners[id(parameters[name])] > 1 for name in names),
        )
    return blocks
