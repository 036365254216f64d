"""Look-ups by Hudi's own indexes: ``tagLocation`` of records that are made and cached already, in a warm Spark 3.5."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from scripts import interop_env
from tests.interop.hudi_client import HudiServer


class HudiTag:
    """Hudi 1.2.0 in a process of its own."""

    def __init__(self) -> None:
        interop_env.make()
        self.server = HudiServer("1.2.0", Path(tempfile.mkdtemp(prefix="bench-hudi-")), "6g", quick=False)
        self.server.call("ping")
        self._held: tuple[Path, Mapping[str, str], Path] | None = None

    def look_up(self, table: Path, options: Mapping[str, str], keys: Path) -> tuple[float, int]:
        """Seconds of a look-up, and the records that it gave back, found or not."""
        from lakeindex.write.types.avro_schema import schema_to_avro

        schema = {"hoodie.avro.schema": schema_to_avro(pq.read_schema(keys), "orders")}
        request = {"path": str(table), "options": {**options, **schema}}
        if self._held != (table, options, keys):
            self.server.call("hold", 600, input=str(keys), **request)
            self._held = (table, options, keys)
        done = self.server.call("tag", 1800, **request)
        return float(done["seconds"]), int(done["rows"])

    def close(self) -> None:
        self.server.close()
