"""The whole application of one upsert with Hudi, for spark-submit: ``hudi_submit.py BATCH TABLE OPTIONS``."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

batch, table, options = sys.argv[1:4]
session = SparkSession.builder.appName("upsert").getOrCreate()
session.read.parquet(batch).write.format("hudi").options(**json.loads(options)).mode("append").save(table)
session.stop()
