"""Trace files: what each line becomes, and which line is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_core.adapters.traces.clusters import shorthand_nodes
from gpu_core.adapters.traces.json_lines import read_json_lines
from gpu_core.adapters.traces.microsoft import read_muri, read_philly
from gpu_core.adapters.traces.openb import read_openb_nodes, read_openb_pods, read_openb_shapes
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.simulation.cluster.trace import TraceJob

Reader = Callable[[Path], object]

PHILLY = "job_id,submit_s,duration_s,num_gpus,vc\n"
MURI = "job_id,num_gpu,submit_time,duration,model_name\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,"
PODS += "scheduled_time\n"


def philly(path: Path) -> object:
    return read_philly(path, 8)


def muri(path: Path) -> object:
    return read_muri(path, 8)


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        pytest.param(
            philly,
            PHILLY + "0,45,30,12,6214e9\n",
            TraceJob(job_id="0", submit_s=45, duration_s=30, gpu_count=6, nodes=2, team="6214e9"),
            id="philly: 12 GPUs are a gang of 2 × 6",
        ),
        pytest.param(
            muri,
            MURI + "1,8,2500,1000,dqn\n",
            TraceJob(job_id="1", submit_s=2.5, duration_s=1, gpu_count=8, deployment="dqn"),
            id="muri: milliseconds",
        ),
        pytest.param(
            read_openb_pods,
            PODS + "p,6000,1024,1,460,V100M16|V100M32,10,100,40\n",
            TraceJob(
                job_id="p",
                submit_s=10,
                duration_s=60,
                gpu_share_milli=460,
                gpu_types=("V100M16", "V100M32"),
                cpu_milli=6000,
                memory_mib=1024,
            ),
            id="openb: part of a GPU, from being scheduled to being deleted",
        ),
        pytest.param(
            read_openb_pods,
            PODS + "p,6000,1024,0,0,,10,100,\n",
            TraceJob(
                job_id="p",
                submit_s=10,
                duration_s=90,
                gpu_count=0,
                cpu_milli=6000,
                memory_mib=1024,
            ),
            id="openb: no GPU, never scheduled",
        ),
        pytest.param(
            read_openb_shapes,
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,6000,1024,2,1000\n",
            TraceJob(
                job_id="p",
                submit_s=0,
                duration_s=0,
                gpu_count=2,
                cpu_milli=6000,
                memory_mib=1024,
            ),
            id="openb: without times",
        ),
        pytest.param(
            read_json_lines,
            '\n{"job_id": "a", "submit_s": 0, "duration_s": 1.5, "gpu_types": ["t4"]}\n',
            TraceJob(job_id="a", submit_s=0, duration_s=1.5, gpu_types=("t4",)),
            id="json lines",
        ),
    ],
)
def test_a_line_becomes_a_job(
    tmp_path: Path, reader: Reader, text: str, expected: TraceJob
) -> None:
    """Each format's columns and units."""
    path = tmp_path / "trace"
    path.write_text(text)
    assert reader(path) == (expected,)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        pytest.param(philly, PHILLY + "0,45,x,1,a\n", "trace:2: duration_s", id="no number"),
        pytest.param(philly, PHILLY + "0,45,-1,1,a\n", "trace:2: duration_s", id="negative"),
        pytest.param(philly, PHILLY + "0,1,1,1,a\n1,1,1,1.5,a\n", "trace:3: num_gpus", id="parts"),
        pytest.param(philly, PHILLY + "0,1,1,1\n", "trace:2: vc is missing", id="short line"),
        pytest.param(muri, PHILLY, "has no column 'num_gpu'", id="another format"),
        pytest.param(read_json_lines, '{"job_id": 1}', "trace:1: job_id", id="no text"),
        pytest.param(
            read_json_lines,
            '{"job_id": "a", "submit_s": 0, "duration_s": 1, "gpus": 2}',
            "trace:1: gpus is not a known name",
            id="unknown field",
        ),
        pytest.param(read_json_lines, "{", "trace:1", id="no JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, reader: Reader, text: str, message: str) -> None:
    """File, line and field are in the message."""
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        reader(path)


@pytest.mark.parametrize("reader", [philly, read_json_lines])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, reader: Reader) -> None:
    """Reading fails with the path."""
    with pytest.raises(InvalidInput, match="absent"):
        reader(tmp_path / "absent")


def test_openb_nodes(tmp_path: Path) -> None:
    """GPUs of a model that may be shared, and CPU and memory that count."""
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    (node,) = read_openb_nodes(path)
    assert (node.name, node.gpu_type, node.gpu_ids) == ("n0", "P100", ("0", "1"))
    assert (node.cpu_milli, node.memory_mib, node.is_shareable) == (64000, 262144, True)


@pytest.mark.parametrize(
    ("text", "sizes"), [("3x8", [8, 8, 8]), ("count:640", [640])], ids=["nodes", "one pool"]
)
def test_clusters_in_shorthand(text: str, sizes: list[int]) -> None:
    """Nodes of so many GPUs, or one node with all."""
    nodes = shorthand_nodes(text)
    assert [len(node.gpu_ids) for node in nodes] == sizes
    assert len({node.name for node in nodes}) == len(sizes)


def test_a_cluster_of_two_capacity_types() -> None:
    """Each kind has numbers of its own."""
    nodes = shorthand_nodes("1x8+11x4:spot+1x2")
    assert [(n.name, n.capacity_type, len(n.gpu_ids)) for n in (nodes[0], nodes[1], nodes[-1])] == [
        ("node-0", "on-demand", 8),
        ("spot-00", "spot", 4),
        ("node-1", "on-demand", 2),
    ]
    assert len({node.name for node in nodes}) == len(nodes)


@pytest.mark.parametrize("text", ["8x8:spott", "8x8+", "8", "x8", "8x", "0x8", "count:0", "-1x8"])
def test_no_cluster(text: str) -> None:
    """What is neither shorthand nor a file is refused."""
    with pytest.raises(InvalidInput, match="nodes"):
        shorthand_nodes(text)
