"""Errors that schemas miss: wrong manifests that the API accepts, or seems to accept."""

from gpu_core.decisions.kubernetes.lint.findings import LintFinding, Severity
from gpu_core.decisions.kubernetes.lint.lint import lint

__all__ = ["LintFinding", "Severity", "lint"]
