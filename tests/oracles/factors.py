"""Dense float64 Kronecker factors of one layer by brute force, for tiny networks.

Patches come from convolving with one-hot kernels, derivatives from a perturbation added to the
layer's output and torch's own Jacobian. Nothing here uses curvbound.
"""

import copy

import torch
from torch import Tensor, nn

from oracles.dense import _widen, double, output_hessian


def inputs_and_jacobian(
    model: nn.Module, inputs: Tensor, layer: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer inputs, network outputs, and d outputs / d layer output for every example.

    The Jacobian is ``(B, outputs per example, *shape of one layer output)``.
    """
    model, inputs = double(model), _widen(inputs)
    module = model.get_submodule(layer)
    seen: list[Tensor] = []
    shapes: list[torch.Size] = []
    handle = module.register_forward_hook(lambda _m, args, out: seen.append(args[0].detach()))
    handle2 = module.register_forward_hook(lambda _m, _a, out: shapes.append(out.shape))
    outputs = model(inputs).detach()
    handle.remove()
    handle2.remove()

    def shifted(delta: Tensor) -> Tensor:
        hook = module.register_forward_hook(lambda _m, _a, out: out + delta)
        try:
            return model(inputs)
        finally:
            hook.remove()

    J = torch.autograd.functional.jacobian(shifted, torch.zeros(shapes[0], dtype=torch.float64))
    B = len(outputs)
    J = J.reshape(B, -1, *shapes[0])
    own = torch.stack([J[i, :, i] for i in range(B)])
    return seen[0], outputs, own


def patches(module: nn.Module, x: Tensor) -> Tensor:
    """What a layer multiplies its weight with, ``(B, groups, n, P)``."""
    if isinstance(module, nn.Linear):
        return x.reshape(len(x), -1, x.shape[-1]).mT.unsqueeze(1)
    groups, n = module.groups, module.weight[0].numel()
    picker = copy.deepcopy(module).to(torch.float64)
    one_hot = torch.eye(n, dtype=torch.float64).reshape(n, *module.weight.shape[1:])
    picker.weight = nn.Parameter(one_hot.repeat(groups, *[1] * (one_hot.dim() - 1)))
    picker.bias, picker.out_channels = None, groups * n
    return picker(x).detach().reshape(len(x), groups, n, -1)


def kronecker_factors(
    model: nn.Module, inputs: Tensor, targets: Tensor, loss: str, layer: str
) -> tuple[Tensor, Tensor]:
    """E[M] ``(groups, m, m)`` averaged over positions, and E[X X^T] with a row of ones."""
    x, outputs, J = inputs_and_jacobian(model, inputs, layer)
    module = double(model).get_submodule(layer)
    B, per_example = len(outputs), outputs[0].numel()
    A = output_hessian(outputs, targets, loss).reshape(B, per_example, B, per_example)
    X = patches(module, x)
    groups, _, P = X.shape[1:]
    if isinstance(module, nn.Linear):
        J = J.reshape(B, per_example, P, 1, -1).permute(0, 1, 3, 4, 2)
    else:
        J = J.reshape(B, per_example, groups, -1, P)
    M = sum(torch.einsum("kgmp,kl,lgnp->gmn", J[i], A[i, :, i], J[i]) for i in range(B)) / P
    if module.bias is not None:
        X = torch.cat([X, torch.ones_like(X[:, :, :1])], 2)
    return M, torch.einsum("bgnp,bgkp->gnk", X, X) / B
