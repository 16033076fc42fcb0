"""Reports that can be sent around: one self-contained HTML file."""

from curvbound.report.html import write_report

__all__ = ["write_report"]
