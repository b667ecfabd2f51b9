"""Wrong inputs that a newcomer types, and the whole message for each.

A message names the field, the value, the allowed values, the nearest known name and the remedy.
A changed message is changed here by hand, and read again.
"""

from collections.abc import Mapping

# ruff: noqa: E501 - a message is one line

POLICY: Mapping[str, tuple[str, str]] = {
    "a misspelled section": (
        "priorites: {high: 10}",
        "priorites: is not a known name. Did you mean 'priorities'? Allowed: backfill, budgets, calendar, capacity, checkpoints, default_priority, fair_share, hangs, idle, kubernetes, limits, memory, ordering, permissions, placement, preemption, prices, prices_as_of, priorities, quotas, rates, retention, run_times, scale, telemetry, version, virtual_gpus, waiting.",
    ),
    "a list of queues": (
        "priorities: [high, low]",
        "priorities: is not a mapping (got ['high', 'low']). Allowed: names, each with a number, such as {high: 10000, low: 100}.",
    ),
    "points in words": (
        "priorities: {high: ten}",
        "priorities.high: is not a whole number (got 'ten'). Allowed: a whole number, such as 10000.",
    ),
    "a number for a queue": (
        "default_priority: 5",
        "default_priority: is not text (got 5). Allowed: text.",
    ),
    "a misspelled queue": (
        "priorities: {high: 10, low: 1}\ndefault_priority: hihg",
        "default_priority: is not one of the priorities (got 'hihg'). Did you mean 'high'? Allowed: high, low.",
    ),
    "a price without its capacity type": (
        "prices: {a100-80gb: 3.43}",
        "prices.a100-80gb: is not a mapping (got 3.43). Allowed: names with values, such as {on-demand: 4.25, spot: 2.5}.",
    ),
    "a capacity type without its hyphen": (
        "prices: {a100-80gb: {ondemand: 3.43}}",
        "prices.a100-80gb.ondemand: is not one of the choices (got 'ondemand'). Did you mean 'on-demand'? Allowed: on-demand, spot, reserved.",
    ),
    "a price below 0": (
        "prices: {a100-80gb: {on-demand: -1}}",
        "prices.a100-80gb.on-demand: is not an amount in USD (got -1). Allowed: 0 to 1,000,000,000.",
    ),
    "a price with its currency": (
        "prices: {a100-80gb: {on-demand: $3.43}}",
        "prices.a100-80gb.on-demand: is not a price (got '$3.43'). Allowed: USD per GPU-hour, 0 or more, or null. Write 3.43.",
    ),
    "a section without contents": (
        "prices:",
        (
            "prices: has no value. Allowed: names with values, such as {h100-80gb: {on-demand: "
            "4.25, spot: 2.5}}. Add one or remove it."
        ),
    ),
    "a count for a section": (
        "virtual_gpus: 8",
        "virtual_gpus: is not a mapping (got 8). Allowed: the keys count, gpu_type, spot.",
    ),
    "virtual GPUs of no type": (
        "virtual_gpus: {count: 8}",
        "virtual_gpus.gpu_type: is missing. Allowed: text, such as a100-80gb. Add gpu_type to virtual_gpus.",
    ),
    "virtual GPUs without a count": (
        "virtual_gpus: {gpu_type: a100-80gb}",
        "virtual_gpus.count: is missing. Allowed: a whole number from 1 to 64. Add count to virtual_gpus.",
    ),
    "no virtual GPUs": (
        "virtual_gpus: {gpu_type: a100-80gb, count: 0}",
        "virtual_gpus.count: is too small (got 0). Allowed: 1 to 64.",
    ),
    "a count in quotes": (
        "virtual_gpus: {gpu_type: a100-80gb, count: '8'}",
        "virtual_gpus.count: is not a whole number (got '8'). Allowed: a whole number from 1 to 64. Write 8 without quotes.",
    ),
    "a switch for a section": (
        "preemption: true",
        "preemption: is not a mapping (got true). Allowed: the keys enabled, grace_period, max_protection, min_runtime, spare_gpus, takes_from.",
    ),
    "a switch in words": (
        "preemption: {enabled: yes please}",
        "preemption.enabled: is not true or false (got 'yes please'). Allowed: true or false.",
    ),
    "a duration in words": (
        "preemption: {grace_period: 30 seconds}",
        "preemption.grace_period: is not a duration (got '30 seconds'). Did you mean '30s'? Allowed: whole seconds, or text such as '90s', '90m', '1h30m', '2d'.",
    ),
    "a duration below 0": (
        "preemption: {grace_period: -5}",
        "preemption.grace_period: is out of range (got -5). Allowed: 0 seconds to 3650 days.",
    ),
    "half a name": (
        "preemption: {grace: 30s}",
        "preemption.grace: is not a known name. Did you mean 'grace_period'? Allowed: enabled, grace_period, max_protection, min_runtime, spare_gpus, takes_from.",
    ),
    "no checkpoint": (
        "checkpoints: {keep: 0}",
        "checkpoints.keep: is too small (got 0). Allowed: 1 to 1,000.",
    ),
    "one key for a list of keys": (
        "ordering: {keys: priority}",
        "ordering.keys: is not a list (got 'priority'). Allowed: a list of deadline-slack, fair-share, least-attained-service, most-gpus, priority, shortest-job, shortest-remaining-service, shortest-remaining-time, submitted. Write [priority].",
    ),
    "a misspelled ordering key": (
        "ordering: {keys: [fairshare]}",
        "ordering.keys.0: is not one of the choices (got 'fairshare'). Did you mean 'fair-share'? Allowed: deadline-slack, fair-share, least-attained-service, most-gpus, priority, shortest-job, shortest-remaining-service, shortest-remaining-time, submitted.",
    ),
    "a weight of 0": (
        "fair_share: {weights: {vision: 0}}",
        "fair_share.weights.vision: is too small (got 0). Allowed: over 0.",
    ),
    "a team with a number": (
        "quotas: {teams: {vision: 16}}",
        "quotas.teams.vision: is not a mapping (got 16). Allowed: the keys borrowing_limit, cohort, lending_limit, max_gpus_per_user, nominal_quota, weight.",
    ),
    "a quota of no GPU type": (
        "quotas: {teams: {vision: {nominal_quota: 16}}}",
        "quotas.teams.vision.nominal_quota: is not a mapping (got 16). Allowed: names, each with a number, such as {any: 8}.",
    ),
    "a quota in words": (
        "quotas: {teams: {vision: {nominal_quota: {a100-80gb: sixteen}}}}",
        "quotas.teams.vision.nominal_quota.a100-80gb: is not a number of GPUs (got 'sixteen'). Allowed: GPUs, 0 or more, with at most three decimals.",
    ),
    "a misspelled cohort": (
        "quotas: {teams: {vision: {cohort: reserch}}, cohorts: {research: {}}}",
        "quotas.teams.vision.cohort: is not one of the cohorts (got 'reserch'). Did you mean 'research'? Allowed: research.",
    ),
    "budgets by name": (
        "budgets: {vision: 20000}",
        "budgets: is not a list (got {'vision': 20000}). Allowed: a list, each item with the keys assumed_duration, gpu_hours, mode, name, notify, of, period, queues, scope, time_zone, usd, warn_at.",
    ),
    "a budget without its limit": (
        "budgets: [{name: vision, scope: team, of: vision, period: month}]",
        "budgets.0: needs one limit. Allowed: either usd or gpu_hours.",
    ),
    "a budget without name and period": (
        "budgets: [{scope: cluster, usd: 5}]",
        "budgets.0.name: is missing. Allowed: text. Add name to budgets.0.\nbudgets.0.scope: is not one of the choices (got 'cluster'). Did you mean 'user'? Allowed: pool, team, user, project, deployment.\nbudgets.0.period: is missing. Allowed: day, week, month. Add period to budgets.0.",
    ),
    "a period that is not known": (
        "budgets: [{name: v, scope: team, of: vision, period: yearly, usd: 20}]",
        "budgets.0.period: is not one of the choices (got 'yearly'). Allowed: day, week, month.",
    ),
    "an amount with its unit": (
        "budgets: [{name: v, scope: team, of: vision, period: month, usd: 20k}]",
        "budgets.0.usd: is not an amount (got '20k'). Allowed: a number, 0 to 1,000,000,000. Write 20000.",
    ),
    "a misspelled mode": (
        "backfill: {mode: easyy}",
        "backfill.mode: is not one of the choices (got 'easyy'). Did you mean 'easy'? Allowed: auto, none, easy, greedy, conservative.",
    ),
    "an offer of no size": (
        "scale: {offers: [{gpu_type: a100-80gb}]}",
        "scale.offers.0.gpus_per_node: is missing. Allowed: a whole number from 1 to 64. Add gpus_per_node to scale.offers.0.",
    ),
    "a percentage for a part": (
        "scale: {utilization: 80}",
        "scale.utilization: is too large (got 80). Allowed: over 0 to 1.",
    ),
    "a weekday in full": (
        "calendar: {closures: [{name: x, nodes: [a], weekly: {weekdays: [sunday], starts: '02:00', ends: '06:00'}}]}",
        "calendar.closures.0.weekly.weekdays.0: is not one of the choices (got 'sunday'). Did you mean 'sun'? Allowed: mon, tue, wed, thu, fri, sat, sun.",
    ),
    "a time of day in English": (
        "calendar: {closures: [{name: x, nodes: [a], weekly: {weekdays: [sun], starts: 2am, ends: '06:00'}}]}",
        "calendar.closures.0.weekly.starts: is not a time of day (got '2am'). Allowed: text from '00:00' to '23:59'. Quote it: YAML reads 10:00 as the number 600.",
    ),
    "one queue for a list of queues": (
        "permissions: {default: {queues: medium}}",
        "permissions.default.queues: is not a list (got 'medium'). Allowed: a list of text. Write [medium].",
    ),
    "a version in words": (
        "kubernetes: {version: latest}",
        "kubernetes.version: is not a version (got 'latest'). Allowed: text such as '1.34'.",
    ),
    "one node pool for a list": (
        "kubernetes: {node_pools: gpu}",
        "kubernetes.node_pools: is not a list (got 'gpu'). Allowed: a list, each item with the keys gpu_resource, match_labels, mig_strategy, shared_gpu_resource, shares_per_gpu.",
    ),
    "rates by GPU type": (
        "rates: {a100-80gb: 1}",
        "rates.a100-80gb: is not one of the choices (got 'a100-80gb'). Allowed: on-demand, spot, reserved.\nrates.a100-80gb: is not a mapping (got 1). Allowed: the keys cpu_core, gpu, memory_gib.",
    ),
}

JOB_VARIABLES: Mapping[str, tuple[str, str]] = {
    "GPUs in words": (
        "gpu_count: four",
        "gpu_count: is not a whole number (got 'four'). Allowed: a whole number from 0 to 64.",
    ),
    "GPUs in quotes": (
        "gpu_count: '4'",
        "gpu_count: is not a whole number (got '4'). Allowed: a whole number from 0 to 64. Write 4 without quotes.",
    ),
    "more GPUs than a node has": (
        "gpu_count: 65",
        "gpu_count: is too large (got 65). Allowed: 0 to 64.",
    ),
    "half a GPU more": (
        "gpu_count: 1.5",
        "gpu_count: is not a whole number (got 1.5). Allowed: a whole number from 0 to 64.",
    ),
    "two GPUs as a fraction": (
        "gpu_fraction: 2",
        "gpu_fraction: is too large (got 2). Allowed: over 0 to 1.",
    ),
    "half a MIG profile": (
        "mig_profile: 1g",
        "mig_profile: is not a MIG profile (got '1g'). Allowed: compute slices and memory such as '1g.10gb' or '1g.10gb+me'.",
    ),
    "no node": (
        "nodes: 0",
        "nodes: is too small (got 0). Allowed: 1 to 64.",
    ),
    "memory with its unit": (
        "gpu_memory_gib: 80GB",
        "gpu_memory_gib: is not a whole number (got '80GB'). Allowed: a whole number from 1 to 4,096.",
    ),
    "a misspelled capacity type": (
        "capacity_type: spots",
        "capacity_type: is not one of the choices (got 'spots'). Did you mean 'spot'? Allowed: auto, spot, on-demand, reserved.",
    ),
    "a duration in English": (
        "expected_duration: 3 hours",
        "expected_duration: is not a duration (got '3 hours'). Did you mean '3h'? Allowed: whole seconds, or text such as '90s', '90m', '1h30m', '2d'.",
    ),
    "a deadline in English": (
        "deadline: tomorrow",
        "deadline: is not a deadline (got 'tomorrow'). Allowed: a moment such as '2026-09-01T18:00Z', or a duration such as '6h' from submission.",
    ),
    "a budget with its currency": (
        "budget_usd: $5",
        "budget_usd: is not an amount (got '$5'). Allowed: USD, over 0, such as 12.50, or null for no limit. Write 5.",
    ),
    "a beginning of a choice": (
        "workload_type: train",
        "workload_type: is not one of the choices (got 'train'). Did you mean 'training'? Allowed: training, fine-tuning, inference, batch-inference, interactive.",
    ),
    "an interval in English": (
        "checkpoint_interval: often",
        "checkpoint_interval: is not a duration (got 'often'). Allowed: whole seconds, or text such as '90s', '90m', '1h30m', '2d'.",
    ),
    "a team without letters": (
        "team: ''",
        "team: is empty (got ''). Allowed: text of one character or more.",
    ),
    "a store of an unknown kind": (
        "checkpoint_uri: s4://bucket",
        "checkpoint_uri: has an unknown scheme (got 's4://bucket'). Allowed: a folder's path, file:///folder or s3://bucket/prefix.",
    ),
    "a bucket without its name": (
        "checkpoint_uri: 's3://'",
        "checkpoint_uri: names no bucket (got 's3://'). Allowed: a folder's path, file:///folder or s3://bucket/prefix.",
    ),
    "work without a model": (
        "work: make it good",
        "work: names no model, size or task (got 'make it good'). Allowed: words with a model and a method, such as 'fine-tune a 7B model with LoRA', at most 1,000 characters.",
    ),
}

COMMAND_LINES: Mapping[str, tuple[str, str]] = {
    "no job": (
        "plan",
        "prefect-gpu plan: --model is missing. Allowed: a model such as llama-3-8b, or parameters such as 7B. Describe the job in words, or state model or parameters, and method.",
    ),
    "a size in words": (
        "plan --parameters seven",
        "prefect-gpu plan: --parameters is not a number above zero (got 'seven'). Allowed: such as 7B, 350M, 20k or 1e9.",
    ),
    "a misspelled method": (
        "plan --method lra",
        "prefect-gpu plan: --method is not one of the choices (got 'lra'). Did you mean 'lora'? Allowed: full, inference, lora, qlora. See `prefect-gpu plan --help`.",
    ),
    "a deadline in English": (
        "plan 'fine-tune a 7B model with LoRA' --deadline tomorrow",
        "prefect-gpu plan: --deadline is not a deadline (got 'tomorrow'). Allowed: a moment such as '2026-09-01T18:00Z', or a duration such as '6h' from submission.",
    ),
    "GPUs in words": (
        "plan 'fine-tune a 7B model with LoRA' --gpus many",
        "prefect-gpu plan: --gpus is not a whole number (got 'many'). Allowed: a whole number such as 8. See `prefect-gpu plan --help`.",
    ),
    "a region alone": (
        "plan 'fine-tune a 7B model with LoRA' --data-at us",
        "prefect-gpu plan: --data-at is not a place (got 'us'). Allowed: PROVIDER/REGION such as aws/us-east-1.",
    ),
    "a stage too high": (
        "plan 'fine-tune a 7B model with LoRA' --zero-stage 4",
        "prefect-gpu plan: --zero-stage is not a ZeRO stage (got 4). Allowed: 0 to 3.",
    ),
    "a GPU type that is not known": (
        "plan 'fine-tune a 7B model with LoRA' --gpu-type a1000",
        "prefect-gpu plan: --gpu-type is not in the catalog (got 'a1000'). Did you mean 'a100-80gb'? Allowed: a100-40gb, a100-80gb, a10g, b200, h100-80gb, h200, l4, l40s, t4, v100-16gb, v100-32gb.",
    ),
    "a misspelled option": (
        "queue --pol gpu",
        "prefect-gpu queue: --pol is not a known option. Did you mean '--pool'? Allowed: --help, --json, --pool. See `prefect-gpu queue --help`.",
    ),
    "a misspelled command": (
        "queues",
        "prefect-gpu: COMMAND is not one of the choices (got 'queues'). Did you mean 'queue'? Allowed: anomalies, catalog, check, cost, doctor, gpus, hold, ledger, move-up, optimize, plan, queue, quickstart, release, setup, simulate, spot-replay. See `prefect-gpu --help`.",
    ),
    "a day in English": (
        "cost report --day yesterday",
        "prefect-gpu cost report: --day is not a date (got 'yesterday'). Allowed: a date such as 2026-11-24.",
    ),
    "an option of another command": (
        "cost report --month 2026-10",
        "prefect-gpu cost report: --month is not a known option. Allowed: --by, --csv, --day, --help, --idle, --json, --ledger, --ledger-file, --limit, --policy, --pool, --show, --with-generated. See `prefect-gpu cost report --help`.",
    ),
    "a key that is not known": (
        "cost report --by people",
        "prefect-gpu cost report: --by is not one of the choices (got 'people'). Allowed: attempt, capacity-type, deployment, experiment, gpu-type, model, parent-run, project, run, team, user, workload-type, zone.",
    ),
    "a ledger that does not exist": (
        "cost report --ledger nope.db",
        "prefect-gpu cost report: --ledger is not a file (got 'nope.db'). Name the ledger's file, or its address such as postgresql+psycopg://USER@HOST/DATABASE.",
    ),
    "a month in English": (
        "cost savings --month last",
        "prefect-gpu cost savings: --month is not a month (got 'last'). Allowed: a month such as 2026-10.",
    ),
    "a bill that does not exist": (
        "cost reconcile nope.csv",
        "prefect-gpu cost reconcile: nope.csv does not exist. Name a readable bill in UTF-8.",
    ),
    "a day without its month": (
        "optimize --day 32",
        "prefect-gpu optimize: --day is not a date (got '32'). Allowed: a date such as 2026-11-24.",
    ),
    "no proposal": (
        "optimize show",
        "prefect-gpu optimize show: PROPOSAL is required. Example: `prefect-gpu optimize show spot-3f2a9c1b`. See `prefect-gpu optimize show --help`.",
    ),
    "no run": (
        "hold",
        "prefect-gpu hold: FLOW-RUN is required. Example: `prefect-gpu hold wise-otter`. See `prefect-gpu hold --help`.",
    ),
    "no nodes": (
        "simulate",
        "prefect-gpu simulate: --nodes is required. Example: `prefect-gpu simulate --nodes 80x8 --workload jobs.jsonl --format jsonl --policy fifo --policy easy`. See `prefect-gpu simulate --help`.",
    ),
    "no GPU": (
        "gpus free",
        "prefect-gpu gpus free: GPU-ID is required. Example: `prefect-gpu gpus free GPU-5f2a1c3e-7d10-4b6f-9a2e-0c4d8b1e6f37`. See `prefect-gpu gpus free --help`.",
    ),
    "no recording": (
        "spot-replay",
        "prefect-gpu spot-replay: FILE is required, or --ledger. Example: `prefect-gpu spot-replay trace.json --task-hours 8 --deadline-hours 12 --price-ratio 3`.",
    ),
    "a question that is not known": (
        "optimize ask how --ledger nope.db",
        "prefect-gpu optimize ask: question is not one of the known questions (got 'how'). Allowed: such as 'most expensive workloads', 'most expensive runs', 'most expensive teams'. For all questions, see docs/questions.md.",
    ),
    "a misspelled subcommand": (
        "catalog shw",
        "prefect-gpu catalog: COMMAND is not one of the choices (got 'shw'). Did you mean 'show'? Allowed: refresh, show. See `prefect-gpu catalog --help`.",
    ),
    "an unknown region": (
        "catalog show --region mars",
        "prefect-gpu catalog show: --region is not in the catalog (got 'mars'). Allowed: us-east-1, us-east-2, us-west-2.",
    ),
    "an unknown option": (
        "catalog show --sort price",
        "prefect-gpu catalog show: --sort is not a known option. Allowed: --all, --capacity-type, --catalog, --gpu-type, --help, --json, --prices, --provider, --region. See `prefect-gpu catalog show --help`.",
    ),
    "no file": (
        "check",
        "prefect-gpu check: FILES is required. Allowed: files, folders, or -. Example: `prefect-gpu check policy.yaml prefect.yaml`.",
    ),
    "a file that does not exist": (
        "check nope.yaml",
        "prefect-gpu check: nope.yaml does not exist. Name a readable file in UTF-8.",
    ),
}
