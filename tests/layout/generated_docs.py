"""The parts of docs/ that are made of the code: `make docs` writes them, a test compares them."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpu_core.decisions.kubernetes.variables.prefect_fields import PREFECT_FIELDS
from gpu_core.decisions.optimization.proposals.kinds import RULES, UNPROPOSED, KindRule
from gpu_core.decisions.policy.pod_fields import TABLE
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.telemetry.metric_names import QUANTITIES, ExporterMetric
from gpu_core.worker.kubernetes.variables import GpuKubernetesVariables
from tests.layout.command_reference import command_sections, exit_code_table
from tests.layout.policy_reference import policy_tables
from tests.layout.question_reference import question_table

_DOCS = Path(__file__).parents[2] / "docs"


def fields_table() -> str:
    """What becomes of each job variable of prefect-kubernetes, as a table in Markdown."""
    rows = [f"| `{field.name}` | {field.treatment} | {field.effect} |" for field in PREFECT_FIELDS]
    head = ["| Job variable | Here | What happens |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def pod_fields_table() -> str:
    """Who may set each field of a pod, as a table in Markdown."""
    rows = [
        f"| `{row.of}` | {', '.join(f'`{name}`' for name in row.names)} | {row.judgment} "
        f"| {row.why} |"
        for row in TABLE
    ]
    head = ["| Of | Fields | Who may set them | Why |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def variables_table(names: Iterable[str], schema: Mapping[str, Any]) -> str:
    """These job variables with the descriptions that the run form shows, as a table in Markdown."""
    rows = [f"| `{name}` | {_described(schema[name])} |" for name in names]
    return "\n".join(["| Job variable | Description |", "|---|---|", *rows]) + "\n"


def _described(field: Mapping[str, Any]) -> str:
    """The description, with the values that can be chosen."""
    options = [field, *field.get("anyOf", ())]
    values = next((option["enum"] for option in options if "enum" in option), ())
    choices = f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""
    return f"{field['description']}{choices}"


def all_pools_table() -> str:
    """The job variables of every GPU pool."""
    schema = GpuRequest.model_json_schema()["properties"]
    return variables_table(schema, schema)


def kubernetes_table() -> str:
    """Those that a gpu-kubernetes pool adds to these and to prefect-kubernetes."""
    schema = GpuKubernetesVariables.model_json_schema()["properties"]
    known = {*GpuRequest.model_json_schema()["properties"], *(f.name for f in PREFECT_FIELDS)}
    return variables_table((name for name in schema if name not in known), schema)


def metric_names_table() -> str:
    """What every metric of a GPU is called by other exporters."""
    rows = [
        f"| `{each.exported_name}` | {_sources(each.dcgm)} | {_sources(each.dcgm_base)} "
        f"| {_sources(each.nvidia_smi)} "
        f"| {f'`{each.opentelemetry}`' if each.opentelemetry else '–'} |"
        for each in QUANTITIES
    ]
    head = [
        "| Here | dcgm-exporter up to 4.8 | dcgm-exporter from 4.9 | nvidia_gpu_exporter "
        "| OpenTelemetry |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _sources(sources: Iterable[ExporterMetric]) -> str:
    """The names, with what each value is multiplied by where that is not 1."""
    texts = [f"`{s.name}`{_FACTORS[s.factor]}" for s in sources]
    return ", else ".join(texts) or "–"


def proposal_kinds_table() -> str:
    """When each kind of change is proposed, and what becomes of it."""
    rows = [
        f"| `{kind}` | {rule.evidence} | {rule.change} | {rule.simulated} | {_verified(rule)} |"
        for kind, rule in RULES.items()
    ]
    head = [
        "| Proposal | Required records in the ledger | Change | Basis of the saving "
        "| Verified by the cost of a |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _verified(rule: KindRule) -> str:
    if rule.by_hand is None:
        return rule.unit.value
    return f"Not verified. A person must {rule.by_hand}."


def not_proposed_table() -> str:
    """What is not proposed, and why."""
    rows = [f"| {each.change} | {each.why} | {each.instead} |" for each in UNPROPOSED]
    return "\n".join(["| Change | Reason | Alternative |", "|---|---|---|", *rows]) + "\n"


_FACTORS = {1.0: "", 0.01: " (%)", 1e-3: " (mJ)", 1e6: " (MHz)", 2.0**20: " (MiB)"}


TABLES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    _DOCS / "job-variables.md": {
        "all-pools": all_pools_table,
        "kubernetes-pools": kubernetes_table,
    },
    _DOCS / "kubernetes.md": {"prefect-fields": fields_table},
    _DOCS / "monitoring.md": {"metric-names": metric_names_table},
    _DOCS / "security.md": {"pod-fields": pod_fields_table},
    _DOCS / "optimization.md": {
        "proposal-kinds": proposal_kinds_table,
        "not-proposed": not_proposed_table,
    },
    _DOCS / "policy-reference.md": {"policy-keys": policy_tables},
    _DOCS / "questions.md": {"questions": question_table},
    _DOCS / "command-reference.md": {
        "exit-codes": exit_code_table,
        "commands": command_sections,
    },
}
"""By document, what stands between the marks of each name."""


def with_tables(path: Path) -> str:
    """The document with its tables as the code has them."""
    text = path.read_text("utf-8")
    for name, table in TABLES[path].items():
        begin = f"<!-- {name}: `make docs` writes this table -->\n"
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(f"<!-- {name}: end -->\n")
        if not end:
            raise ValueError(f"{path.name} lacks the marks of the table {name}")
        text = f"{before}{begin}{table()}{end}{after}"
    return text


if __name__ == "__main__":
    for document in TABLES:
        document.write_text(with_tables(document), "utf-8")
