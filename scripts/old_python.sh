#!/bin/sh
# Set-up, every import and a choice of the unit tests, an eighth in turns by commit, with the system's own Python, in a clone
# of HEAD below build/. Nothing is done where /usr/bin/python3 is not supported or has the version of .venv.
set -eu
system=/usr/bin/python3
version='import sys; print(sys.version.split()[0]); sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'
if ! found=$("$system" -c "$version" 2> /dev/null); then
    echo "$system is none that lakeindex supports: nothing to test"
    exit 0
fi
if [ "$found" = "$(.venv/bin/python -c "$version")" ]; then
    echo "$system is $found, as .venv: nothing to test"
    exit 0
fi
clone=build/old-python
rm -rf "$clone"
git clone --quiet . "$clone"
cd "$clone"
make --no-print-directory setup "PYTHON=$system"
.venv/bin/python - << 'END'
import importlib, pkgutil, sys
import lakeindex

names = [module.name for module in pkgutil.walk_packages(lakeindex.__path__, "lakeindex.")]
for name in names:
    importlib.import_module(name)
print(f"Python {sys.version.split()[0]}: {len(names)} modules imported")
END
turn=$(printf '%d' "0x$(git rev-parse --short=4 HEAD)")
chosen=$(git ls-files 'tests/unit/**/test_*.py' | awk -v turn="$turn" 'NR % 8 == turn % 8')
marks="not ($(sed -n 's/^APART := //p' Makefile) or spark or dag)"
# shellcheck disable=SC2086 # a word for each file
.venv/bin/python scripts/env.py run -- .venv/bin/pytest -q -m "$marks" tests/vectors $chosen
