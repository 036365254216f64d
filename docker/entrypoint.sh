#!/bin/sh
# pip's PySpark holds a whole Spark: its place is SPARK_HOME, its commands come first on PATH.
set -eu
SPARK_HOME=$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
PATH="$SPARK_HOME/bin:$PATH"
export SPARK_HOME PATH
exec "$@"
