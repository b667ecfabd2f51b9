"""Modules of `gpu_core.worker` in a process that needs few of them."""

LIGHT_WORKER = """
import sys, types, gpu_core
worker = types.ModuleType("gpu_core.worker")
worker.__path__ = [f"{gpu_core.__path__[0]}/worker"]
sys.modules["gpu_core.worker"] = worker
"""
"""What a test's program begins with: it then imports the modules that it names.

`gpu_core.worker` itself imports both worker types, and with them Prefect, Kubernetes' client and
SQLAlchemy: 4 s of a processor for a program that may need none of them.
"""
