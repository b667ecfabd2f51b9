"""Rules and dashboards, with promtool and a real Prometheus that scrapes what a worker exports."""

import json
import re
import shutil
import subprocess
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from gpu_core.adapters.prometheus.exposition import CONTENT_TYPE, exposition
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.telemetry.idle_state import IdleState
from gpu_core.decisions.telemetry.metric_names import MEMORY_REST, QUANTITIES, READINGS
from gpu_core.decisions.telemetry.metrics import (
    GpuGroup,
    HourlyCost,
    JudgedUse,
    WorkerFacts,
    worker_metrics,
)
from gpu_core.decisions.telemetry.samples import GpuSample
from tests.support.prometheus import RULES, run_prometheus
from tests.support.tools import require
from tests.support.waiting import wait_for

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"
SCRAPES = Path(__file__).parents[1] / "gpu_core" / "adapters" / "prometheus" / "scrapes"
UNIT_TESTS = Path(__file__).with_name("rules_test.yaml")
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))

# Names of PromQL that look like metrics.
_WORDS = {
    *("and", "or", "on", "by", "sum", "avg", "max", "min", "unless", "vector", "time", "rate"),
    *("avg_over_time", "max_over_time", "min_over_time", "label_replace", "bool"),
    *("count", "topk"),
}


def rules(kind):
    """The rules of this kind, `record` or `alert`, by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule[kind]: rule for group in groups for rule in group["rules"] if kind in rule}


def queries(path):
    """The queries of a dashboard, with its variables filled in as Grafana does for All."""
    dashboard = json.loads(path.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [re.sub(r"\$(gpu|pool)", ".*", query) for query in found]


def metrics_in(query):
    """The metrics that a query names."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\b(by|on) \([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    return {name for name in re.findall(r"[A-Za-z_][A-Za-z0-9_:]*", bare) if name not in _WORDS}


def promtool(*arguments, folder):
    program = require(shutil.which("promtool"), "promtool (prometheus)")
    ran = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_fires_and_keeps_silent(tmp_path):
    for path in (RULES, UNIT_TESTS):
        shutil.copy(path, tmp_path)
    promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)
    cases = [
        case
        for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
    ]
    for is_firing in (True, False):
        tested = {case["alertname"] for case in cases if bool(case["exp_alerts"]) is is_firing}
        assert tested == set(rules("alert"))


def exported():
    """The metrics that a worker has."""
    return {
        f"{family.name}_total" if family.kind == "counter" else family.name
        for family in worker_metrics(WorkerFacts(pool="gpu"))
    }


def test_rules_stand_on_metrics_that_a_worker_exports_and_alerts_on_no_vendors():
    # A rule sees what was recorded before it in the same evaluation.
    before = exported()
    for name, rule in rules("record").items():
        if not name.startswith("dcgm:"):
            assert metrics_in(rule["expr"]) <= before, name
        before.add(name)
    for name, rule in rules("alert").items():
        assert metrics_in(rule["expr"]) <= before, name
        assert "dcgm:" not in rule["expr"], name


def test_rules_on_dcgm_have_every_metric_name():
    """So that no generation of dcgm-exporter is missing in panels and alerts."""
    recorded = {name: rule["expr"] for name, rule in rules("record").items()}
    of_rest = {source.name for source in MEMORY_REST}
    for quantity in QUANTITIES:
        names = {source.name for source in (*quantity.dcgm, *quantity.dcgm_base)}
        ours = [name for name, expr in recorded.items() if quantity.exported_name in expr]
        if not names or not ours or quantity.field == "memory_total_bytes":
            continue
        (of_dcgm,) = {n for n in metrics_in(recorded[ours[0]]) if n.startswith("dcgm:")}
        in_rule = metrics_in(recorded[of_dcgm])
        assert names <= in_rule, quantity.field
        assert in_rule <= set(READINGS) | of_rest, quantity.field


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_names_recording_rules_only_and_its_queries_parse(path, tmp_path):
    assert queries(path)
    ours = {name for name in rules("record") if not name.startswith("dcgm:")}
    for query in queries(path):
        assert metrics_in(query) <= ours, query
    parsed = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries(path))]
    (tmp_path / "q.yaml").write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": parsed}]}))
    promtool("check", "rules", "q.yaml", folder=tmp_path)


# A large pool of on-demand GPUs without any spot, and a small one of spot GPUs; one is idle.
_TWO_POOLS = """
prefect_gpu_gpus{pool="large", gpu_type="h100", capacity_type="on-demand", state="held"} 30
prefect_gpu_gpus{pool="large", gpu_type="h100", capacity_type="on-demand", state="free"} 30
prefect_gpu_gpus{pool="small", gpu_type="a100", capacity_type="spot", state="held"} 10
prefect_gpu_gpus{pool="idle", gpu_type="a100", capacity_type="spot", state="free"} 10
prefect_gpu_hourly_cost_usd{pool="large", team="vision", model="m", workload_type="training"} 90
prefect_gpu_hourly_cost_usd{pool="small", team="vision", model="m", workload_type="training"} 10
prefect_gpu_cycle_step_seconds{pool="large", step="plan"} 0.3
prefect_gpu_cycle_step_seconds{pool="small", step="plan"} 0.2
prefect_gpu_device_utilization_ratio{gpu="GPU-a", instance="m"} 0.01
prefect_gpu_device_held{gpu="GPU-a", instance="m"} 1
"""


@pytest.mark.parametrize(
    ("dashboard", "title", "want"),
    [
        pytest.param("queue", "GPUs held", {"{}": 40 / 80}, id="GPUs held, of all pools"),
        pytest.param(
            "queue",
            "Time of a scheduling cycle by step",
            {'{step="plan"}': 0.3},
            id="the slowest worker",
        ),
        pytest.param("cost", "Spot share of GPUs in use", {"{}": 10 / 40}, id="spot, of all pools"),
        pytest.param(
            "efficiency", "Spot share of GPUs in use", {"{}": 10 / 40}, id="the same figure"
        ),
        pytest.param("cost", "Hourly cost now", {"{}": 100}, id="cost, of all pools"),
        pytest.param(
            "efficiency",
            "Savings potential: hourly cost of wasted GPUs",
            {"{}": 100 / 40},
            id="one wasted GPU, at the mean price of a GPU in use",
        ),
    ],
)
def test_a_panel_over_several_pools_weighs_each_by_its_gpus(dashboard, title, want, tmp_path):
    path = MONITORING / "dashboards" / f"{dashboard}.json"
    panels = json.loads(path.read_text())["panels"]
    (query,) = (
        re.sub(r"\$(gpu|pool)", ".*", target["expr"])
        for panel in panels
        if panel["title"] == title
        for target in panel["targets"]
    )
    expect(query, want, tmp_path)


@pytest.mark.parametrize(
    ("pool", "held", "spot"),
    [("large", 0.5, 0.0), ("small", 1.0, 1.0), ("idle", 0.0, None)],
)
def test_a_pool_without_spot_or_without_runs_has_a_share_of_zero(pool, held, spot, tmp_path):
    """A missing value would leave it out of each mean. Of no GPU in use no share is spot."""
    for name, share in (("pool:gpus_held:ratio", held), ("pool:spot_held:ratio", spot)):
        series = f'{name}{{pool="{pool}"}}'
        expect(series, {} if share is None else {series: share}, tmp_path)


def expect(query, samples, folder):
    """Let promtool check what the query has in the world of the two pools, by labels."""
    shutil.copy(RULES, folder)
    series = [line.rpartition(" ") for line in _TWO_POOLS.strip().splitlines()]
    wanted = [{"labels": labels, "value": value} for labels, value in samples.items()]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{value}x60"} for name, _, value in series],
        "promql_expr_test": [{"expr": query, "eval_time": "45m", "exp_samples": wanted}],
    }
    test = {
        "rule_files": [RULES.name],
        "evaluation_interval": "1m",
        "group_eval_order": ["prefect-gpu-recording", "prefect-gpu-alerts"],
        "tests": [case],
    }
    (folder / "pools.yaml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", "pools.yaml", folder=folder)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_provisioned(path):
    """Without an import: its data source is a variable, its uid is short, no panel has another's
    place or number."""
    dashboard = json.loads(path.read_text())
    assert dashboard["id"] is None
    assert 0 < len(dashboard["uid"]) <= 40
    assert "__inputs" not in dashboard
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    places = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in dashboard["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert all(x < 24 for x, _ in places)


def facts():
    """A worker with something of everything; its counters grow with each scrape."""
    now_s = datetime.now(UTC).timestamp()
    return WorkerFacts(
        pool="gpu",
        waiting={Reason.WAITING_FOR_GPUS: 5000},
        oldest_wait_s=60.0,
        running=1,
        starts=int(now_s),
        preemptions=int(now_s),
        ends={EndReason.COMPLETED: int(now_s)},
        gpus={GpuGroup("h100-80gb", "spot", "held"): 1, GpuGroup("h100-80gb", "spot", "free"): 1},
        held_gpu_ids=frozenset({"GPU-a"}),
        costs=(HourlyCost("llama", "vision", "training", 3_600_000.0),),
        uses=(JudgedUse("vision", IdleState.FINISHED, 1, True, 3_600_000.0),),
        steps_s={"plan": 0.25},
        cycles=int(now_s),
        cycle_ended_at_s=now_s,
        team_cost_micro_usd={("vision", "day"): 1e6, ("vision", "month"): 2e6},
        ledger_read_at_s=now_s,
        samples=(
            GpuSample(
                gpu_id="GPU-a",
                at=datetime.now(UTC),
                utilization_ratio=0.01,
                sm_active_ratio=0.01,
                memory_used_bytes=10,
                memory_total_bytes=80,
                temperature_c=60.0,
                power_w=100.0,
                energy_j=100.0 * now_s,
            ),
        ),
        verdicts={"GPU-a": HealthVerdict.RESET},
    )


class Scraped(BaseHTTPRequestHandler):
    """A worker, and dcgm-exporter of two generations on other GPUs."""

    def do_GET(self):
        body = exposition(worker_metrics(facts()))
        if self.path != "/metrics":
            body = (SCRAPES / self.path.removeprefix("/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def prometheus(tmp_path):
    """A real Prometheus with our rules, which scrapes a worker's metrics each second."""
    worker = ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threading.Thread(target=worker.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{worker.server_address[1]}"
    jobs = [
        {"job_name": job, "metrics_path": path, "static_configs": [{"targets": [target]}]}
        for job, path in (
            ("gpu", "/metrics"),
            ("dcgm-old", "/dcgm-exporter-4.5.0.txt"),
            ("dcgm-new", "/dcgm-exporter-4.9.0.txt"),
        )
    ]
    with run_prometheus(tmp_path, jobs) as running:
        yield running
    worker.shutdown()
    worker.server_close()


def test_a_real_prometheus_scrapes_a_worker_and_every_panel_has_data(prometheus):
    result = prometheus.result
    for name in rules("record"):
        wait_for(lambda name=name: result(name), f"the rule {name} has a value")
    for path in DASHBOARDS:
        for query in queries(path):
            wait_for(lambda query=query: result(query), f"{path.stem} has data for {query}")
    (waiting,) = result("pool:runs_waiting:count")
    assert waiting["metric"]["reason"] == "WaitingForGpus"
    assert waiting["value"][1] == "5000"
