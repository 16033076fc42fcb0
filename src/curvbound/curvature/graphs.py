"""The part of a matrix-vector product that does not depend on the vector, for one chunk of data.

Both graphs run the network forward once and differentiate back to the layers' outputs once; every
product then reuses that. Per dense layer or convolution a Hessian product costs six multiplications
of the size of the layer's forward pass (two for the first layer), a Gauss-Newton product four: what
a hand-written R-operator needs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from curvbound.batches import Inputs
from curvbound.curvature.conv import Switch
from curvbound.curvature.sites import SiteRecorder
from curvbound.errors import CurvboundError
from curvbound.landscape import Landscape

__all__ = ["ChunkGraph", "HessianGraph", "JacobianGraph", "Metric"]

Metric = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps (outputs, targets, output tangent) to the output Hessian's product with the tangent."""


class ChunkGraph:
    """A forward pass over one chunk, its sites, and the leaves that stand for the parameters."""

    def __init__(self, land: Landscape, inputs: Inputs, names: Sequence[str]) -> None:
        self.names = names
        self.on = Switch()
        self.leaves = land.leaves(names)
        recorder = SiteRecorder(self.leaves, self.on)
        with recorder:
            self.outputs = land.forward(inputs, self.leaves)
        self.sites = recorder.sites
        self.aliases = recorder.aliases
        self._at_sites: tuple[Tensor | None, ...] = ()
        self._elsewhere: tuple[Tensor | None, ...] = ()

    def _back_to_sites(
        self, scalars: Tensor, weights: Tensor | None = None
    ) -> tuple[tuple[Tensor | None, ...], tuple[Tensor | None, ...]]:
        """Differentiable gradients with respect to site outputs and to parameters elsewhere."""
        if not scalars.requires_grad:
            return (None,) * len(self.sites), (None,) * len(self.names)
        self.on.weights = False
        try:
            ends: list[Any] = [*(site.output for site in self.sites), *self.leaves.values()]
            gradients = torch.autograd.grad(
                scalars,
                ends,
                weights,
                create_graph=True,
                allow_unused=True,
            )
        except RuntimeError as error:
            raise _explained(error) from error
        finally:
            self.on.weights = True
        return gradients[: len(self.sites)], gradients[len(self.sites) :]

    def refuse_hidden_errors(self) -> None:
        """Refuse functions that were declared to have no second derivative.

        torch would leave their part out in silence: the node that raises the error is not on the
        way to any parameter, hence never runs.
        """
        seen: set[Any] = set()
        waiting = [g.grad_fn for g in (*self._at_sites, *self._elsewhere) if g is not None]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            if node.name().endswith("Error"):
                raise CurvboundError(
                    "The network cannot be differentiated twice: one of its functions is marked "
                    "once_differentiable."
                )
            seen.add(node)
            waiting.extend(following for following, _ in node.next_functions)

    def _to_parameters(
        self, roots: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Gradient with respect to all parameters, in both of their roles, keeping the graph."""
        if not roots:
            return [None] * len(self.names)
        ends = [*self.leaves.values(), *self.aliases.values()]
        try:
            found = torch.autograd.grad(
                roots, ends, cotangents, retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:
            raise _explained(error) from error
        total = dict(zip(self.names, found, strict=False))
        for name, part in zip(self.aliases, found[len(self.names) :], strict=True):
            other = total[name]
            if part is not None:
                total[name] = part if other is None else other + part
        return [total[name] for name in self.names]


class HessianGraph(ChunkGraph):
    """Products with the Hessian of the summed loss of one chunk."""

    def __init__(
        self, land: Landscape, inputs: Inputs, targets: Tensor, names: Sequence[str]
    ) -> None:
        super().__init__(land, inputs, names)
        loss = land.loss.sum(self.outputs, targets)
        self._at_sites, self._elsewhere = self._back_to_sites(loss)

    def product(self, vector: Mapping[str, Tensor]) -> list[Tensor | None]:
        """Hessian times ``vector``, both by parameter.

        The directional derivative of the loss is the sum over sites of <delta, x V^T>; its
        gradient flows through delta (cotangent x V^T) and through x (cotangent delta V).
        """
        roots: list[Tensor] = []
        cotangents: list[Tensor] = []
        with torch.no_grad():
            for site, delta in zip(self.sites, self._at_sites, strict=True):
                if delta is None:
                    continue
                weight = vector[site.weight]
                if delta.requires_grad:
                    roots.append(delta)
                    bias = vector[site.bias] if site.bias else None
                    cotangents.append(site.forward_tangent(weight, bias))
                if site.inputs.requires_grad:
                    roots.append(site.inputs)
                    cotangents.append(site.backward_tangent(delta, weight))
        for name, gradient in zip(self.names, self._elsewhere, strict=True):
            if gradient is not None and gradient.requires_grad:
                roots.append(gradient)
                cotangents.append(vector[name])
        return self._to_parameters(roots, cotangents)


class JacobianGraph(ChunkGraph):
    """Products with J^T B J of one chunk, J the derivative of the outputs by the parameters."""

    def __init__(
        self, land: Landscape, inputs: Inputs, targets: Tensor, names: Sequence[str]
    ) -> None:
        super().__init__(land, inputs, names)
        self.targets = targets
        # u -> J^T u is linear, so that its own derivative by u, at any u, is v -> J v.
        self._dual = torch.zeros_like(self.outputs).requires_grad_()
        self._at_sites, self._elsewhere = self._back_to_sites(self.outputs, self._dual)

    def tangent(self, vector: Mapping[str, Tensor]) -> Tensor:
        """J times ``vector``: how the outputs change."""
        roots: list[Tensor] = []
        cotangents: list[Tensor] = []
        for site, delta in zip(self.sites, self._at_sites, strict=True):
            if delta is not None:
                roots.append(delta)
                with torch.no_grad():
                    bias = vector[site.bias] if site.bias else None
                    cotangents.append(site.forward_tangent(vector[site.weight], bias))
        for name, gradient in zip(self.names, self._elsewhere, strict=True):
            if gradient is not None:
                roots.append(gradient)
                cotangents.append(vector[name])
        if not roots:
            return torch.zeros_like(self.outputs)
        self.on.weights = False
        try:
            return torch.autograd.grad(roots, self._dual, cotangents, retain_graph=True)[0]
        except RuntimeError as error:
            raise _explained(error) from error
        finally:
            self.on.weights = True

    def product(self, vector: Mapping[str, Tensor], metric: Metric) -> list[Tensor | None]:
        """J^T B J times ``vector`` with B given by ``metric``."""
        with torch.no_grad():
            cotangent = metric(self.outputs, self.targets, self.tangent(vector))
        if not self.outputs.requires_grad:
            return [None] * len(self.names)
        return self._to_parameters([self.outputs], [cotangent])


def _explained(error: RuntimeError) -> CurvboundError:
    first = str(error).splitlines()[0].rstrip(".")
    if "memory" in first:
        return CurvboundError(f"Out of memory ({first}): choose a smaller batch_size.")
    return CurvboundError(f"The network cannot be differentiated twice: {first}.")
