"""The one error that curvbound raises on purpose."""

__all__ = ["CurvboundError"]


class CurvboundError(Exception):
    """Something the caller can put right.

    The message is one sentence that says what is wrong, where, and what to do. Nothing has been
    changed or written when it is raised. The command line prints it and exits with status 2.
    """
