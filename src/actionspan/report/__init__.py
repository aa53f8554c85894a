"""The report: runs, timelines and details of a record as one HTML file that needs nothing else."""

from __future__ import annotations

from actionspan.report._page import render, write_private

__all__ = ["render", "write_private"]
