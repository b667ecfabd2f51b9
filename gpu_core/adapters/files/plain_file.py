"""Files that others write, who may put anything in their place."""

import errno
import os
import stat
from pathlib import Path


def read_plain_file(path: Path, most_bytes: int) -> bytes:
    """Read a regular file. A run can put a pipe there, which would block its reader.

    Raises:
        OSError: It is no plain file, or larger than that.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 # a path would be opened again
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes")
    return content
