"""Curvature of the loss: matrix-free operators and structured approximations."""
