"""A Prefect that has moved a private part is refused at the worker's start, by name."""

import inspect
import re

import pytest
from prefect.workers.base import BaseWorker

from gpu_core.adapters.prefect.internals import (
    OVERRIDDEN,
    USED,
    USED_BY_COMMANDS,
    missing_parts,
    unsupported_prefect,
)
from gpu_core.worker import GpuKubernetesWorker, GpuProcessWorker
from gpu_core.worker.startup.checks import CannotStart, check_prefect

BASE = "prefect.workers.base:BaseWorker"
OURS = {
    each
    for worker in (GpuKubernetesWorker, GpuProcessWorker)
    for each in worker.__mro__
    if each.__module__.startswith("gpu_core.")
}


def test_the_installed_prefect_has_all():
    assert missing_parts() == ()
    assert missing_parts(USED_BY_COMMANDS) == ()
    check_prefect()


@pytest.mark.parametrize("name", sorted({*OVERRIDDEN[BASE], "_documentation_url"}))
def test_a_method_that_was_moved_is_named(name, monkeypatch):
    monkeypatch.delattr(BaseWorker, name)
    with pytest.raises(CannotStart, match=rf"^prefect 3\S+ .* lacks BaseWorker\.{name}\b") as error:
        check_prefect()
    assert "Install prefect-kubernetes <0.10,>=0.8 and prefect <3.10,>=3.8.8" in str(error.value)


def test_a_method_with_another_parameter_is_named(monkeypatch):
    def _submit_run(self, flow_run, priority): ...

    monkeypatch.setattr(BaseWorker, "_submit_run", _submit_run)
    assert missing_parts() == ("BaseWorker._submit_run(self, flow_run)",)


def test_a_module_that_was_moved_is_named():
    assert missing_parts({"prefect._gone": ("name",)}) == ("prefect._gone.name",)


def test_the_remedy_names_the_releases_that_are_allowed():
    text = unsupported_prefect(("BaseWorker._logger",))
    assert text.endswith(
        "Install prefect-kubernetes <0.10,>=0.8 and prefect <3.10,>=3.8.8 or upgrade prefect-gpu."
    )


@pytest.mark.parametrize("ours", sorted(OURS, key=lambda each: each.__name__))
def test_every_private_part_that_a_worker_uses_is_listed(ours):
    """What a class of ours overrides of Prefect's worker, and what it uses of it."""
    own = {name for each in OURS for name in vars(each)}
    used = set(re.findall(r"self\.(_[a-z]\w*)", inspect.getsource(ours)))
    of_base = inspect.getsource(BaseWorker)
    private = {name for name in (used | set(vars(ours))) if name.startswith("_")}
    of_prefect = {
        name
        for name in private
        if hasattr(BaseWorker, name) or (name not in own and f"self.{name}" in of_base)
    }
    not_of_the_form = {name for name in of_prefect if not name.startswith("__")}
    assert not_of_the_form - {*OVERRIDDEN[BASE], *USED[BASE], "_abc_impl", "_description"} == set()
