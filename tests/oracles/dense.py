"""Dense float64 reference curvature by torch's own differentiation, for tiny networks.

Nothing here uses curvbound: losses are torch's, parameters are replaced through
``torch.func.functional_call``, second derivatives come from ``torch.autograd.functional``.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


def double(model: nn.Module) -> nn.Module:
    """A float64 copy, tied weights still tied."""
    return copy.deepcopy(model).to(torch.float64)


def names_of(model: nn.Module) -> list[str]:
    """Trainable parameters in order, tied ones once."""
    return [name for name, p in model.named_parameters() if p.requires_grad]


def flat_parameters(model: nn.Module) -> Tensor:
    parameters = dict(model.named_parameters())
    return torch.cat([parameters[name].detach().reshape(-1) for name in names_of(model)])


def positions_of(model: nn.Module, prefixes: Sequence[str]) -> Tensor:
    """Indices in the flat vector of all parameters whose name starts with one of ``prefixes``."""
    indices, start = [], 0
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes):
            indices.append(torch.arange(start, start + p.numel()))
        start += p.numel()
    return torch.cat(indices)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def output_function(model: nn.Module, inputs: Tensor) -> Callable[[Tensor], Tensor]:
    """The network's outputs as a float64 function of the flat parameter vector."""
    model = double(model)
    parameters = {name: dict(model.named_parameters())[name] for name in names_of(model)}
    inputs = _widen(inputs)

    def outputs(flat: Tensor) -> Tensor:
        pieces = flat.split([p.numel() for p in parameters.values()])
        replaced = {
            name: piece.view_as(p)
            for (name, p), piece in zip(parameters.items(), pieces, strict=True)
        }
        fast_path = torch.backends.mha.get_fastpath_enabled()
        onednn = torch._C._get_mkldnn_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        torch._C._set_mkldnn_enabled(False)
        try:
            with sdpa_kernel(SDPBackend.MATH):
                return torch.func.functional_call(model, replaced, (inputs,))
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
            torch._C._set_mkldnn_enabled(onednn)

    return outputs


def mean_loss(loss: str | Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """torch's own mean loss; language-model outputs (N, T, C) are brought to torch's order."""
    if callable(loss):
        return loss

    def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))

    return {
        "cross_entropy": cross_entropy,
        "mse": lambda z, y: functional.mse_loss(z, _widen(y)),
        "binary_cross_entropy": lambda z, y: functional.binary_cross_entropy_with_logits(
            z, _widen(y)
        ),
    }[loss]


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    outputs, function = output_function(model, inputs), mean_loss(loss)
    flat = flat_parameters(double(model)).requires_grad_()
    return torch.autograd.grad(function(outputs(flat), targets), flat)[0]


def hessian(model: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """Hessian of the mean loss, (P, P)."""
    outputs, function = output_function(model, inputs), mean_loss(loss)
    flat = flat_parameters(double(model))
    return torch.autograd.functional.hessian(lambda w: function(outputs(w), targets), flat)


def jacobian(model: nn.Module, inputs: Tensor) -> Tensor:
    """Derivative of all outputs, ``(*outputs.shape, P)``."""
    flat = flat_parameters(double(model))
    return torch.autograd.functional.jacobian(output_function(model, inputs), flat)


def output_hessian(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """Hessian of the mean loss with respect to all outputs, a square matrix over all of them."""
    function = mean_loss(loss)
    flat = outputs.detach().reshape(-1)
    return torch.autograd.functional.hessian(lambda z: function(z.view_as(outputs), targets), flat)


def gauss_newton(model: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """J^T A J with A the output Hessian of the mean loss, (P, P)."""
    J = jacobian(model, inputs)
    outputs = output_function(model, inputs)(flat_parameters(double(model)))
    A = output_hessian(outputs, targets, loss)
    J = J.reshape(-1, J.shape[-1])
    return J.T @ A @ J


def term_gradients(model: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """Gradients of the single terms of the mean loss, (terms, P).

    A term is one label: one class label, one binary label, one target vector.
    """
    outputs = output_function(model, inputs)(flat_parameters(double(model)))
    J = jacobian(model, inputs)
    P = J.shape[-1]
    if loss == "cross_entropy":
        labels = functional.one_hot(targets.reshape(-1), outputs.shape[-1])
        residual = outputs.reshape(labels.shape).softmax(1) - labels
        return torch.einsum("rc,rcp->rp", residual, J.reshape(*labels.shape, P))
    if loss == "binary_cross_entropy":
        residual = outputs.sigmoid() - _widen(targets)
        return residual.reshape(-1, 1) * J.reshape(-1, P)
    residual = (2 * (outputs - _widen(targets)) / outputs[0].numel()).flatten(1)
    return torch.einsum("nd,ndp->np", residual, J.reshape(*residual.shape, P))


def empirical_fisher(model: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """Mean over terms of g g^T with the given labels, (P, P)."""
    g = term_gradients(model, inputs, targets, loss)
    return g.T @ g / len(g)
