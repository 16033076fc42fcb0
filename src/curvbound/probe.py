"""One careful look at a network before anything is calculated with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from curvbound.errors import CurvboundError
from curvbound.layers import LayerUse

__all__ = ["Probe", "check_model", "probe_forward", "trainable_parameters"]

_DROPOUT = (nn.modules.dropout._DropoutNd,)
_BATCH_NORM = (nn.modules.batchnorm._BatchNorm,)

# Operations under which the output stays piecewise linear in any one of the inputs. Views, copies
# and comparisons are recognised by the schema or by name; what is not listed counts as curved.
_PIECEWISE_LINEAR = frozenset(
    {
        "add",
        "add_",
        "sub",
        "sub_",
        "neg",
        "relu",
        "relu_",
        "leaky_relu",
        "leaky_relu_",
        "threshold",
        "hardtanh",
        "hardtanh_",
        "abs",
        "clamp",
        "clamp_min",
        "clamp_max",
        "maximum",
        "minimum",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "avg_pool2d",
        "avg_pool3d",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "adaptive_max_pool2d",
        "mean",
        "sum",
        "cat",
        "stack",
        "constant_pad_nd",
        "native_batch_norm",
        "prelu",
        "_prelu_kernel",
        "clone",
        "_native_batch_norm_legit_no_training",
        "_native_batch_norm_legit",
        "cudnn_batch_norm",
        "embedding",
        "detach",
        "_to_copy",
        "copy_",
        "upsample_nearest2d",
        "reflection_pad2d",
        "replication_pad2d",
        "zeros_like",
        "mkldnn_convolution",
        "index_select",
        "gather",
        "flip",
        "roll",
        "repeat",
        "empty",
        "zeros",
        "ones",
        "arange",
        "_unsafe_view",
        "cumsum",
        "empty_like",
        "new_empty",
        "new_zeros",
        "unsafe_split",
    }
)


# Products are linear in either factor, hence harmless when one of them is a weight or a constant.
_PRODUCTS = frozenset({"mul", "mul_", "mm", "bmm", "baddbmm", "addmm", "convolution", "mv"})


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the names of the operations of a forward pass that could bend the output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.curved: set[str] = set()
        self._fixed = {
            tensor.untyped_storage().data_ptr()
            for tensor in (*model.parameters(), *model.buffers())
        }

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        aliases = [argument.alias_info for argument in func._schema.arguments]
        view = any(alias is not None and not alias.is_write for alias in aliases)
        if name in _PRODUCTS:
            factors = args[1:3] if name in ("addmm", "baddbmm") else args[:2]
            straight = sum(self._moves(factor) for factor in factors) < 2
        elif name in ("div", "div_"):
            straight = not isinstance(args[1], Tensor) or args[1].dim() == 0
        else:
            straight = view or name in _PIECEWISE_LINEAR
        if not straight:
            self.curved.add(name)
        return func(*args, **(kwargs or {}))

    def _moves(self, factor: Any) -> bool:
        if not isinstance(factor, Tensor) or factor.dim() == 0:
            return False
        return factor.untyped_storage().data_ptr() not in self._fixed


@dataclass
class Probe:
    """What a forward pass over a few examples showed.

    Attributes:
        use: How often each module ran, and over how many positions.
        curved: Operations that are not piecewise linear, by aten name.
        saved_bytes: Bytes per example that autograd keeps for one backward pass.
        largest_bytes: Bytes per example of the largest single activation.
        outputs: The network's outputs.
    """

    outputs: Tensor
    use: dict[nn.Module, LayerUse] = field(default_factory=dict)
    curved: set[str] = field(default_factory=set)
    saved_bytes: int = 0
    largest_bytes: int = 0


def trainable_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Trainable parameters by name, tied ones once; refuses what has no real derivative."""
    parameters: dict[str, Tensor] = {}
    for name, tensor in model.named_parameters():
        if isinstance(tensor, nn.parameter.UninitializedParameter):
            raise CurvboundError(
                f"Parameter '{name}' is not initialised yet: run the network once before."
            )
        if tensor.is_complex():
            raise CurvboundError(
                f"Parameter '{name}' is complex: only real parameters are supported; store real "
                "and imaginary parts as two parameters."
            )
        if not tensor.is_floating_point():
            raise CurvboundError(
                f"Parameter '{name}' has integer type {tensor.dtype}, which has no derivative: "
                "make it a buffer, or convert the network to floating point."
            )
        if not bool(torch.isfinite(tensor.detach()).all()):
            raise CurvboundError(
                f"Parameter '{name}' contains NaN or infinite values: train or load it again."
            )
        if tensor.requires_grad:
            parameters[name] = tensor
    if not parameters:
        raise CurvboundError(
            "The network has no trainable parameters: call requires_grad_(True) on those whose "
            "curvature is wanted."
        )
    return parameters


def check_model(model: nn.Module) -> None:
    """Refuse modules in training mode whose output then depends on chance or on the batch."""
    for path, module in model.named_modules():
        where = f"module '{path}' ({type(module).__name__})" if path else type(module).__name__
        if module.training and isinstance(module, _DROPOUT) and getattr(module, "p", 0) > 0:
            raise CurvboundError(
                f"Dropout {where} is in training mode, so the loss is random: call model.eval()."
            )
        if module.training and isinstance(module, _BATCH_NORM):
            raise CurvboundError(
                f"BatchNorm {where} is in training mode, so examples of a batch influence each "
                "other: call model.eval()."
            )
        if isinstance(module, _BATCH_NORM) and module.running_mean is None:
            raise CurvboundError(
                f"BatchNorm {where} keeps no running statistics, so examples of a batch influence "
                "each other: use track_running_stats=True."
            )
        hidden = isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) and module.dropout > 0
        if module.training and hidden:
            raise CurvboundError(
                f"The dropout inside {where} is in training mode, so the loss is random: call "
                "model.eval()."
            )


@contextmanager
def _counted_calls(model: nn.Module, use: dict[nn.Module, LayerUse]) -> Iterator[None]:
    def count(module: nn.Module, _: Any, output: Any) -> None:
        record = use.setdefault(module, LayerUse())
        record.calls += 1
        if isinstance(output, Tensor):
            record.positions = _positions(module, output)

    handles = [
        module.register_forward_hook(count)
        for module in model.modules()
        if any(tensor is not None for tensor in module._parameters.values())
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _positions(module: nn.Module, output: Tensor) -> int:
    width = {
        nn.Linear: lambda: output.shape[-1],
        nn.Embedding: lambda: output.shape[-1],
        nn.LayerNorm: lambda: int(torch.Size(module.normalized_shape).numel()),  # type: ignore
    }.get(type(module), lambda: output.shape[1] if output.dim() > 1 else 1)()
    return max(1, output.numel() // max(1, len(output) * width))


def probe_forward(model: nn.Module, run: Callable[[], Tensor], examples: int) -> Probe:
    """Run the network twice, compare, and note what the curvature calculations need to know."""
    buffers = {name: (buffer, buffer.clone()) for name, buffer in model.named_buffers()}
    use: dict[nn.Module, LayerUse] = {}
    sizes: dict[int, int] = {}
    largest = 0
    known = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}

    def pack(tensor: Tensor) -> Tensor:
        nonlocal largest
        if tensor.data_ptr() not in known:
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            largest = max(largest, tensor.numel() * tensor.element_size())
        return tensor

    operations = _Operations(model)
    try:
        with (
            _counted_calls(model, use),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
            operations,
        ):
            first = run()
        again = run()
        changed = [name for name, (live, kept) in buffers.items() if not _same(live, kept)]
    finally:
        with torch.no_grad():
            for live, kept in buffers.values():
                if not _same(live, kept):
                    live.copy_(kept)
    if changed:
        raise CurvboundError(
            f"The forward pass changes the buffer '{changed[0]}', so the loss depends on how often "
            "it was computed: call model.eval(), or make the module leave its buffers alone."
        )
    if not _close(first.detach(), again.detach()):
        raise CurvboundError(
            "Two forward passes on the same input disagree, so the loss is random: find the module "
            "that draws random numbers and switch it off."
        )
    return Probe(
        outputs=first.detach(),
        use=use,
        curved=operations.curved,
        saved_bytes=sum(sizes.values()) // examples,
        largest_bytes=largest // examples,
    )


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _close(a: Tensor, b: Tensor) -> bool:
    # Atomic additions on an accelerator round differently from run to run; chance differs more.
    if a.shape != b.shape:
        return False
    a, b = torch.nan_to_num(a), torch.nan_to_num(b)
    scale = float(a.abs().max()) if a.numel() else 0.0
    return bool(((a - b).abs() <= 100 * torch.finfo(a.dtype).eps * scale).all())
