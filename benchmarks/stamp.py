"""The smallest run: note which flow run this is and when its process was there.

    python -I -S stamp.py FILE

The time is taken at the first line, so it includes the interpreter's own start of about 15 ms.
"""

import time

started_at_s = time.time()  # before anything else is loaded

import os  # noqa: E402 - the time comes first
import sys  # noqa: E402 - as above

with open(sys.argv[1], "a") as stamps:  # noqa: PTH123 - quicker to import
    stamps.write(f"{os.environ['PREFECT__FLOW_RUN_ID']} {started_at_s!r}\n")
