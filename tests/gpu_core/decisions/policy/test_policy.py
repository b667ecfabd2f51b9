"""What a policy may say, and what a person reads who wrote something else."""

import pickle
import re
from pathlib import Path

import pytest

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import InvalidInputs
from gpu_core.decisions.policy.policy import Policy, parse_policy

REPOSITORY = Path(__file__).parents[4]


def test_the_smallest_policy_has_the_defaults():
    """Everything but the version may be left out."""
    policy = parse_policy({"version": 1})
    assert policy.priorities == {"critical": 1_000_000, "high": 10_000, "medium": 1_000, "low": 100}
    assert policy.preemption.enabled
    assert (policy.preemption.grace_period_s, policy.preemption.min_runtime_s) == (30, 60)
    assert (policy.checkpoints.interval_s, policy.checkpoints.keep) == (600, 2)
    assert (policy.limits.max_gpus_per_run, policy.limits.max_duration_s) == (None, None)
    assert (policy.limits.max_failures, policy.waiting.publish_per_cycle) == (3, 20)
    assert policy.virtual_gpus is None


def test_the_policy_that_is_shipped_spells_out_the_defaults():
    """The commented file says what holds without it."""
    shipped = load_policy(REPOSITORY / "deployments" / "policy.yaml")
    defaults = parse_policy({"version": 1})
    examples = {"prices": {}, "prices_as_of": None, "virtual_gpus": None}
    assert shipped.model_copy(update=examples) == defaults
    assert shipped.virtual_gpus is not None
    assert (shipped.virtual_gpus.gpu_type, shipped.virtual_gpus.count) == ("a100-80gb", 8)


@pytest.mark.parametrize(
    ("gpu_type", "capacity_type", "want_micro_usd"),
    [
        pytest.param("a100-80gb", "on-demand", 3_670_000, id="a listed price"),
        pytest.param("t4", "spot", 0, id="free because a user said so"),
        pytest.param("a100-80gb", "reserved", None, id="null is unpriced"),
        pytest.param("a100-80gb", "spot", None, id="a capacity type that is not listed"),
        pytest.param("h100-80gb", "on-demand", None, id="a GPU type that is not listed"),
        pytest.param("a100-80gb", "preemptible", None, id="an unknown capacity type"),
    ],
)
def test_price(gpu_type, capacity_type, want_micro_usd):
    """A price is whole micro-USD, or None, which is not free."""
    prices = {"a100-80gb": {"on-demand": 3.67, "reserved": None}, "t4": {"spot": 0}}
    policy = parse_policy({"version": 1, "prices": prices})
    assert policy.price_micro_usd_per_gpu_hour(gpu_type, capacity_type) == want_micro_usd


@pytest.mark.parametrize(
    ("queue", "want_points"),
    [
        pytest.param("critical", 1_000_000, id="a listed queue"),
        pytest.param("default", 1_000, id="Prefect's own queue"),
        pytest.param("urgent", None, id="a queue that is not listed"),
    ],
)
def test_priority_of_queue(queue, want_points):
    """A queue has points, or the policy does not know it."""
    assert parse_policy({"version": 1}).priority_of_queue(queue) == want_points


@pytest.mark.parametrize(
    ("data", "want_message"),
    [
        pytest.param(None, "policy is empty", id="an empty file"),
        pytest.param([1], "policy is not a mapping (got [1])", id="a list"),
        pytest.param({}, "policy: version is missing", id="no version"),
        pytest.param(
            {"version": 2}, "policy: version is not a known version (got 2). Allowed: 1", id="v2"
        ),
        pytest.param(
            {"version": 1, "preemption": True},
            "policy: preemption is not a mapping (got true). Allowed: the keys enabled, ",
            id="a section that is a value",
        ),
        pytest.param(
            {"version": 1, "quotas": {"teams": {"nlp": {"nominal_quota": 4}}}},
            "policy: quotas.teams.nlp.nominal_quota is not a mapping (got 4). Allowed: names, each "
            "with a number, such as {any: 8}",
            id="a quota without a flavor",
        ),
        pytest.param(
            {"version": 1, "prices": {"t4": 2.5}},
            "policy: prices.t4 is not a mapping (got 2.5). Allowed: names with values, such as "
            "{on-demand: 4.25, spot: 2.5}",
            id="a price without a capacity type",
        ),
        pytest.param(
            {"version": 1, "kubernetes": {"per_gpu": 3}},
            "policy: kubernetes.per_gpu is not a mapping (got 3). Allowed: names, each with the "
            "keys cpu, memory_gib",
            id="a mapping to sections",
        ),
        pytest.param(
            {"version": 1, "preemptoin": {}},
            "policy: preemptoin is not a known name. Did you mean 'preemption'?",
            id="a misspelled section",
        ),
        pytest.param(
            {"version": 1, "preemption": {"enabld": True}},
            "policy: preemption.enabld is not a known name. Did you mean 'enabled'? "
            "Allowed: enabled, grace_period, max_protection, min_runtime",
            id="a misspelled key in a section",
        ),
        pytest.param(
            {"version": 1, "virtual_gpus": {"gpu_type": "t4", "cuont": 1, "count": 1}},
            "policy: virtual_gpus.cuont is not a known name. Did you mean 'count'?",
            id="a misspelled key in an optional section",
        ),
        pytest.param(
            {"version": 1, "preemption": {"grace_period": "soon"}},
            "policy: preemption.grace_period is not a duration (got 'soon'). "
            "Allowed: whole seconds, or text such as '90s'",
            id="a duration that is none",
        ),
        pytest.param(
            {"version": 1, "preemption": {"grace_period": -1}},
            "policy: preemption.grace_period is out of range (got -1)",
            id="a negative duration",
        ),
        pytest.param(
            {"version": 1, "checkpoints": {"interval": 0}},
            "policy: checkpoints.interval is too small (got 0). Allowed: 1 s or more",
            id="an interval of nothing",
        ),
        pytest.param(
            {"version": 1, "fair_share": {"half_life": 7}},
            "policy: fair_share.half_life is too small (got 7). Allowed: 600 s or more. "
            "A number without a unit is seconds: write '7m', '7h' or '7d'",
            id="days without a unit",
        ),
        pytest.param(
            {"version": 1, "preemption": {"enabled": "yes"}},
            "policy: preemption.enabled is not true or false (got 'yes'). Allowed: true or false",
            id="text for a switch",
        ),
        pytest.param(
            {"version": 1, "checkpoints": {"keep": "2"}},
            "policy: checkpoints.keep is not a whole number (got '2'). "
            "Allowed: a whole number from 1 to 1,000. Write 2 without quotes",
            id="a number in quotes",
        ),
        pytest.param(
            {"version": 1, "priorities": {"high": True}},
            "policy: priorities.high is not a whole number (got true)",
            id="a switch for a number",
        ),
        pytest.param(
            {"version": 1, "prices": {"t4": {"sopt": 1}}},
            "policy: prices.t4.sopt is not one of the choices (got 'sopt'). Did you mean 'spot'? "
            "Allowed: on-demand, spot, reserved",
            id="a misspelled capacity type",
        ),
        pytest.param(
            {"version": 1, "prices": {"t4": {"spot": float("nan")}}},
            "policy: prices.t4.spot is not an amount in USD (got nan)",
            id="a price that is no number",
        ),
        pytest.param(
            {"version": 1, "prices": {"t4": {"spot": -0.1}}},
            "policy: prices.t4.spot is not an amount in USD (got -0.1). Allowed: 0 to",
            id="a negative price",
        ),
        pytest.param(
            {"version": 1, "rates": {"spot": {"gpu": {"t4": 4e-7}}}},
            "policy: rates.spot.gpu.t4 is less than a micro-dollar (got 4e-07). Allowed: 0, or "
            "0.000001 to 1,000,000,000",
            id="a rate that would be rounded to nothing",
        ),
        pytest.param(
            {"version": 1, "prices": {"t4": {"spot": "1.5"}}},
            "policy: prices.t4.spot is not a price (got '1.5'). Allowed: USD per GPU-hour",
            id="a price in quotes",
        ),
        pytest.param(
            {"version": 1, "default_priority": "mediun"},
            "policy: default_priority is not one of the priorities (got 'mediun'). "
            "Did you mean 'medium'? Allowed: critical, high, low, medium",
            id="a default queue that does not exist",
        ),
        pytest.param(
            {"version": 1, "priorities": {"medium": 1, "default": 5}},
            "policy: priorities.default cannot have points of its own. Name the queue",
            id="points for Prefect's default queue",
        ),
        pytest.param(
            {"version": 1, "ordering": {"keys": ["fair-share"]}},
            "policy: ordering.keys starts runs that are preempted in the next cycle, "
            "because preemption is based on priority (got 'fair-share'). Add priority as "
            "the first key, or set preemption.enabled to false or preemption.takes_from to "
            "later-in-order",
            id="an order that preemption undoes",
        ),
        pytest.param(
            {"version": 1, "ordering": {"keys": ["deadline-slack", "priority"]}},
            "policy: ordering.keys starts runs that are preempted in the next cycle, "
            "because preemption is based on priority (got 'deadline-slack, priority'). Put "
            "priority first, or set preemption.enabled to false or preemption.takes_from to "
            "later-in-order",
            id="an order in which priority comes second",
        ),
        pytest.param(
            {
                "version": 1,
                "ordering": {"keys": ["fair-share", "priority"]},
                "preemption": {"takes_from": "later-in-order"},
            },
            "policy: ordering.keys starts runs that are preempted in the next cycle, "
            "because preemption by order does not compare shares (got 'fair-share, "
            "priority'). Put fair-share after the other keys, or set preemption.enabled to "
            "false",
            id="shares before what preemption compares",
        ),
        pytest.param(
            {"version": 1, "ordering": {"starvation_after": "5s"}},
            "policy: ordering.starvation_after is too short, so every run would be "
            "considered starved and the ordering keys ignored (got '5 s'). Allowed: at "
            "least 60 s, and no less than preemption.grace_period",
            id="all runs starve",
        ),
        pytest.param(
            {"version": 1, "limits": {"max_gpus_per_run": 8, "max_gpus_per_user": 4}},
            "policy: limits.max_gpus_per_run permits runs that exceed max_gpus_per_user and "
            "would remain pending indefinitely (got 8). Allowed: at most max_gpus_per_user, "
            "4",
            id="a run that no user may hold",
        ),
        pytest.param(
            {"version": 1, "fair_share": {"by": "user", "weights": {"vision": 2}}},
            "policy: fair_share.weights has no effect with by: user, because weights apply "
            "to teams (got 'vision'). Remove it or use by: team-and-user",
            id="weights of teams among users",
        ),
        pytest.param(
            {"version": 1, "fair_share": {"weights": {"vision": 0}}},
            "policy: fair_share.weights.vision is too small (got 0). Allowed: over 0",
            id="a weight of zero",
        ),
        pytest.param(
            {"version": 1, "priorities": {"batch": 1}},
            "policy: default_priority is not one of the priorities (got 'medium'). Allowed: batch. "
            "Name one of them in default_priority",
            id="queues of other names, and no default",
        ),
        pytest.param(
            {"version": 1, "priorities": {}},
            "policy: default_priority is not one of the priorities (got 'medium'). Allowed: none. "
            "Add medium to the priorities",
            id="no queue",
        ),
        pytest.param(
            {"version": 1, "quotas": {"cohorts": {"a": {"parent": "b"}, "b": {"parent": "a"}}}},
            "policy: quotas.cohorts.a.parent is a cycle (got 'a → b → a'). Leave out the parent of "
            "the one that holds the others",
            id="cohorts in a circle",
        ),
        pytest.param(
            {"version": 1, "preemption": None},
            "policy: preemption has no value. Allowed: the keys enabled, grace_period, "
            "max_protection, min_runtime, spare_gpus, takes_from. Add one or remove it.",
            id="a section without a value",
        ),
        pytest.param(
            {"version": None}, "policy: version has no value. Allowed: 1. Add one", id="no version"
        ),
        pytest.param(
            {"version": 1, "preemption": {"grace_period": None}},
            "policy: preemption.grace_period has no value. Allowed: whole seconds, or text such as",
            id="a key without a value",
        ),
        pytest.param(
            {"version": 1, "preemtion": None},
            "policy: preemtion is not a known name. Did you mean 'preemption'?",
            id="a misspelled section without a value",
        ),
        pytest.param(
            {"version": 1, "ordering": {"keys": "priority"}},
            "policy: ordering.keys is not a list (got 'priority'). Allowed: a list of deadline-slac"
            "k, fair-share, least-attained-service, most-gpus, priority, shortest-job, "
            "shortest-remaining-service, shortest-remaining-time, submitted. Write [priority]",
            id="one key in place of a list",
        ),
        pytest.param({"version": 1, 5: 1}, "policy: 5 is not text (got 5)", id="a number as a key"),
    ],
)
def test_one_mistake(data, want_message):
    """A mistake is named with its field, what came, what is allowed and the nearest name."""
    with pytest.raises(InvalidInput) as error:
        parse_policy(data)
    assert str(error.value).startswith(want_message)


def test_several_mistakes_are_listed_at_once():
    """One run of the tool finds all mistakes."""
    with pytest.raises(InvalidInputs) as error:
        parse_policy({"version": 1, "limts": {}, "waiting": {"publish_per_cycle": -1}}, "a.yaml")
    assert str(error.value).splitlines() == [
        "a.yaml: waiting.publish_per_cycle is too small (got -1). Allowed: 0 or more.",
        "a.yaml: limts is not a known name. Did you mean 'limits'? Allowed: "
        + ", ".join(sorted(Policy.model_fields))
        + ".",
    ]


def test_eight_mistakes_are_eight_lines(tmp_path):
    """Each with the file's line, what came, what is allowed or meant; the file is as it was."""
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: 1\nprioritees: {}\ndefault_priority: mediun\nprices: {t4: {sopt: 1}}\n"
        "backfill: {mode: eazy}\nordering: {keys: [fairshare]}\ncheckpoints: {interval: soon}\n"
        "limits: {max_failures: 0}\npreemption: {enabled: maybe}\n"
    )
    with pytest.raises(InvalidInputs) as raised:
        load_policy(path)
    lines = str(raised.value).splitlines()
    assert sorted(line.partition(" ")[0] for line in lines) == [
        f"{path}:{n}:" for n in range(2, 10)
    ]
    assert all(". Did you mean" in line or ". Allowed: " in line for line in lines)


def test_mistakes_of_other_sections_hide_no_contradiction():
    """One correction is enough: what needs no damaged section is checked all the same."""
    data = {"version": 1, "default_priority": "mediun", "prices": {"t4": {"on-demand": "x"}}}
    with pytest.raises(InvalidInputs) as raised:
        parse_policy(data)
    assert [error.field for error in raised.value.errors] == [
        "policy: prices.t4.on-demand",
        "policy: default_priority",
    ]
    assert "Did you mean 'medium'?" in str(raised.value)


def test_what_needs_a_damaged_section_is_not_judged():
    data = {"version": 1, "default_priority": "night", "priorities": {"night": "x"}}
    with pytest.raises(InvalidInput) as raised:
        parse_policy(data)
    assert "default_priority" not in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "want"),
    [
        pytest.param("priority", "keys is not a list (got 'priority')", id="text"),
        pytest.param([1], "keys.0 is not one of the choices (got 1)", id="a number"),
        pytest.param(["fairshare"], "Did you mean 'fair-share'?", id="misspelled"),
        pytest.param(["priority", "priority"], "ordering.keys names a key twice", id="a key twice"),
    ],
)
def test_keys_of_the_order(keys, want):
    data = {"version": 1, "ordering": {"keys": keys}, "unknown": 1}
    with pytest.raises(InvalidInputs) as raised:
        parse_policy(data)
    assert want in str(raised.value)


def test_errors_survive_a_process_boundary():
    """The list of mistakes is the same after pickling."""
    with pytest.raises(InvalidInputs) as error:
        parse_policy({"a": 1, "b": 2})
    copy = pickle.loads(pickle.dumps(error.value))  # noqa: S301  # our own bytes
    assert str(copy) == str(error.value)


@pytest.mark.parametrize(
    ("text", "want_message"),
    [
        pytest.param("", "{path} is empty", id="an empty file"),
        pytest.param(
            "version: 1\npreemption:\n  enabld: true\n",
            "{path}:3: preemption.enabld is not a known name",
            id="the line of a misspelled key",
        ),
        pytest.param(
            "version: 1\nprices:\n  t4:\n    spot: 1\n    on-demand: x\n",
            "{path}:5: prices.t4.on-demand is not a price",
            id="the line of a value",
        ),
        pytest.param(
            "version: 1\nlimits:\n  max_failures: 3\n  max_failures: 4\n",
            "{path}:4: limits.max_failures comes twice. Remove one. The first is in line 3",
            id="a key that comes twice",
        ),
        pytest.param("version: [1\n", "{path}:2:1 is not valid YAML", id="a bracket left open"),
        pytest.param(
            "version: !!python/name:os.x 1\n", "{path}:1:10 is not valid YAML", id="a tag"
        ),
        pytest.param("a: 1\n---\nb: 2\n", "{path}:2:1 is not valid YAML", id="two documents"),
    ],
)
def test_file_with_a_mistake(tmp_path, text, want_message):
    """An error in a file says the line."""
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as error:
        load_policy(path)
    assert str(error.value).startswith(want_message.format(path=path))


def test_a_missing_file_is_named(tmp_path):
    """The error says which file, which one may be meant, and what to do."""
    with pytest.raises(InvalidInput, match=r"absent\.yaml does not exist. Name a readable policy"):
        load_policy(tmp_path / "absent.yaml")
    (tmp_path / "policy.yaml").touch()
    with pytest.raises(InvalidInput, match=r"polcy\.yaml does not exist. Did you mean '.*/policy"):
        load_policy(tmp_path / "polcy.yaml")


def test_mistakes_come_in_the_order_of_their_lines(tmp_path):
    """pydantic lists unknown names last."""
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nprice: {}\nvirtual_gpus: {count: four}\nlimit: {}\nscale: 1\n")
    with pytest.raises(InvalidInputs) as error:
        load_policy(path)
    found = re.findall(r"policy\.yaml:(\d+): ", str(error.value))
    assert found == sorted(found)
    assert {"2", "3", "4", "5"} <= set(found)
