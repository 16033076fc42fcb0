"""What the curvature of a network looks like, and how two networks compare."""
