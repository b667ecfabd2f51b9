"""What schemas miss: manifests that the API accepts, or looks as if it did, and that are wrong."""

from gpu_core.decisions.kubernetes.lint.findings import Finding, Severity
from gpu_core.decisions.kubernetes.lint.lint import lint

__all__ = ["Finding", "Severity", "lint"]
