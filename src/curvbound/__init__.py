"""curvbound: what the loss curvature of a trained network proves about its generalisation."""
