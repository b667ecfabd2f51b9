"""Error numbers of the operating system that mean that a path or a program is refused."""

import errno

REFUSED_PATHS = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Errors of a path that stay until a person changes the path or its rights; a full disk is none."""
