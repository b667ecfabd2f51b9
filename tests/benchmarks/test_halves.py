"""Constants come from the first half of a month, and results from the second."""

import csv
from pathlib import Path

from benchmarks.halves import half_file


def test_each_job_is_in_one_half(tmp_path: Path) -> None:
    """The first second of the sixteenth day is in the second half."""
    (tmp_path / "queueing").mkdir()
    lines = ["job_id,submit_s,duration_s,num_gpus,vc"]
    lines += [f"{i},{submit_s},60,1,a" for i, submit_s in enumerate((0, 1_295_999, 1_296_000))]
    (tmp_path / "queueing" / "philly_oct2017.csv").write_text("\n".join(lines) + "\n")
    for half, want in ((1, ["0", "1"]), (2, ["2"])):
        folder = tmp_path / str(half)
        folder.mkdir()
        with half_file(tmp_path, half, folder).open(newline="") as file:
            assert [row["job_id"] for row in csv.DictReader(file)] == want
