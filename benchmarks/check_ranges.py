"""Are the results of the scheduling table where they were?

    python -m benchmarks.check_ranges results.json [--record DATE]

`ranges.json` has for each result its mean, its spread over runs (0: the replay is deterministic)
and a margin as a share of the mean, and the date it was recorded. A result outside
mean ± (spread + margin × |mean|) fails the check, in either direction: a change for the better is
recorded on purpose. Results only, never times: those belong to the machine.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RANGES = Path(__file__).with_name("ranges.json")

# A tenth of a percent: more than rounding, less than any change of a rule.
MARGIN = 0.001

Results = Mapping[str, Mapping[str, float]]


def out_of_range(results: Results, ranges: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which results left their range, or have none? One line for each."""
    problems = []
    for row, values in sorted(results.items()):
        for metric, value in sorted(values.items()):
            known = ranges.get(row, {}).get(metric)
            if known is None:
                problems.append(f"{row}: {metric} = {value:.6g} has no range")
                continue
            width = known["spread"] + known["margin"] * abs(known["mean"])
            if abs(value - known["mean"]) > width:
                problems.append(
                    f"{row}: {metric} = {value:.6g} is outside {known['mean']:.6g} ± {width:.3g} "
                    f"of {known['date']}"
                )
    return problems


def recorded(results: Results, date: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The ranges around these results."""
    return {
        row: {
            metric: {"mean": value, "spread": 0.0, "margin": MARGIN, "date": date}
            for metric, value in values.items()
        }
        for row, values in results.items()
    }


def main() -> int:
    """Check, or record. Exit code 1: something left its range."""
    parser = argparse.ArgumentParser(description="Compare results with their ranges.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--record", metavar="DATE", help="make these results the ranges")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    ranges = json.loads(RANGES.read_text()) if RANGES.is_file() else {}
    if options.record:
        RANGES.write_text(json.dumps(ranges | recorded(results, options.record), indent=2) + "\n")
        return 0
    problems = out_of_range(results, ranges)
    print("\n".join(problems) or f"{len(results)} rows are in their ranges")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
