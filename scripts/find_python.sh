#!/bin/sh
# Prints the first Python on PATH that lakeindex supports. A name may be there and still not run (version
# managers leave such shims), so each one is asked.
for name in python3 python3.13 python3.12 python3.11 python; do
    if found=$("$name" -c 'import sys; assert (3, 11) <= sys.version_info[:2] < (3, 14); print(sys.executable)' 2>/dev/null); then
        echo "$found"
        exit 0
    fi
done
echo "no Python 3.11, 3.12 or 3.13 on PATH: install one, or run make PYTHON=/path/to/python" >&2
echo python3
