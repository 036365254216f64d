"""The benchmark of the metadata table asks Hudi for the same keys on the same table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import metadata, workloads

pytestmark = pytest.mark.interop


def test_hudis_look_up_in_our_record_index_is_timed_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (workloads, metadata):
        monkeypatch.setattr(module, "DATA", tmp_path)
    ours, hudis = metadata.measure("T_mono_v9", ("look-up-metadata", "look-up-hudi"), 1)
    assert (ours.failed, hudis.failed) == (None, None)
    assert float(ours.facts["x faster than Hudi"]) == pytest.approx(hudis.median / ours.median, abs=0.1)
    assert list((tmp_path / "tables").iterdir()) == []
