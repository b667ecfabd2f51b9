"""The pickle-free form of a state: plain data, NumPy arrays and torch tensors, restored exactly.

Reading it builds values of a fixed list of types. It imports nothing by name and calls nothing that
the bytes name, so bytes from an attacker may give a wrong state but run no code.
"""

from gpu_core.runtime.plain.errors import MalformedPlainState, NotPlain
from gpu_core.runtime.plain.read import read_plain
from gpu_core.runtime.plain.write import write_plain

__all__ = ["MalformedPlainState", "NotPlain", "read_plain", "write_plain"]
