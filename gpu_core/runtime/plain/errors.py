"""Errors of writing and reading the pickle-free format."""

from gpu_core.decisions.model.errors import GpuSchedulingError


class NotPlain(GpuSchedulingError):
    """A state holds a value that the pickle-free form cannot restore exactly.

    Args:
        problem: What is wrong with the value, as a clause.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self._path: list[str] = []

    def inside(self, step: str) -> None:
        """The value lies under this key or index of the container that is left now."""
        self._path.append(step)

    @property
    def path(self) -> str:
        """The path of the value, such as `state['model'][0]`."""
        return "state" + "".join(reversed(self._path))

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


class MalformedPlainState(GpuSchedulingError, ValueError):
    """Bytes are not a state in the pickle-free form; the text is the reason, as a clause."""
