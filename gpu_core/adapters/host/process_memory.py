"""How much memory do a process and its descendants have?"""

import psutil


def memory_bytes(pid: int, without: int) -> int | None:
    """Their memory at this moment; None: unknown, as of a process that has ended.

    What is shared counts once, as the largest share of any of them: loaders of data share memory
    with the process that started them.

    Args:
        pid: The process; all that it started counts, too.
        without: A descendant that does not count.
    """
    try:
        root = psutil.Process(pid)
        found = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    own_bytes = shared_bytes = 0
    for process in found:
        if process.pid == without:
            continue
        try:
            memory = process.memory_info()
        except psutil.Error:
            continue
        shared = getattr(memory, "shared", 0)  # macOS does not say it
        own_bytes += max(0, memory.rss - shared)
        shared_bytes = max(shared_bytes, shared)
    return own_bytes + shared_bytes
