"""The refresh of the catalog, run as people run it."""

import json
from pathlib import Path

import pytest
from prefect.artifacts import Artifact

from flows.refresh_catalog import refresh_catalog
from gpu_core.adapters.aws.catalog import Failure, Look
from gpu_core.adapters.files.catalog_file import load_sheet
from gpu_core.decisions.catalog.refresh import CoveredPlaces, Observation
from gpu_core.testing.builders.catalog import make_catalog, make_key, make_row

FOUND = make_catalog(p9_large=make_row(10.0))


def use_look(monkeypatch: pytest.MonkeyPatch, prices: dict) -> None:
    scope = CoveredPlaces(provider="aws", region="us-east-1", capacity_type="on-demand")
    failure = Failure(part="spot prices", problem="refused", tried="ec2:X", remedy="allow it")
    observation = Observation(
        instance_types=FOUND.instance_types,
        micro_usd_per_hour=prices,
        scopes=(scope,),
        source="a test",
    )
    look = Look(observation=observation, placement_scores=(), failures=(failure,))
    monkeypatch.setattr("flows.refresh_catalog.look_at_aws", lambda *_: look)


def test_the_catalog_is_kept_and_its_changes_are_published(
    prefect_server: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "catalog.json"
    use_look(monkeypatch, {make_key("p9.large"): 9_000_000})
    refresh_catalog(path=path)
    assert load_sheet(path).offerings[make_key("p9.large")].price.micro_usd_per_hour == 9_000_000
    artifact = Artifact.get("gpu-catalog-changes")
    assert artifact is not None
    rows = json.loads(str(artifact.data))
    assert {"offering": str(make_key("p9.large")), "before": "not offered", "now": "$9.00"} in rows
    assert "Failed to refresh: spot prices: refused. The call was ec2:X. Allow it." in caplog.text


def test_nothing_found_fails_and_writes_nothing(
    prefect_server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_look(monkeypatch, {})
    with pytest.raises(RuntimeError, match="No prices found"):
        refresh_catalog(path=tmp_path / "catalog.json")
    assert list(tmp_path.iterdir()) == []
