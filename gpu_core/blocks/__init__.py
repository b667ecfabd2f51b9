"""The Prefect Block types, in a checkout: their files are in the folder `blocks` at its top.

The wheel holds those files here, in place of this one.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "blocks")]
