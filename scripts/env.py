"""The environment in which this checkout's tests, demo and Airflow run.

    scripts/env.py run -- COMMAND...   run a command in it
    scripts/env.py print               print it as shell exports: eval "$(.venv/bin/python scripts/env.py print)"

What it sets and why is in :func:`environment`; a variable that is set already is left alone, except PATH, which
gets the environment's commands in front, and PYTHONDONTWRITEBYTECODE, which is unset.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lib"))

from spark_archive import submit_options  # noqa: E402 - beside this file

from lakeindex.errors import UsageError  # noqa: E402 - the checkout's library, installed or not
from lakeindex.runners.java import find_java_home  # noqa: E402 - as above


def java() -> dict[str, str]:
    """JAVA_HOME for Spark and its class archive if there is one (``make archive``).

    Nothing, and a word on stderr, where there is no Java: most tests need no JVM.
    """
    try:
        home = str(find_java_home(ROOT / ".java"))
        options = submit_options(home)
        return {"JAVA_HOME": home, **({"SPARK_SUBMIT_OPTS": options} if options else {})}
    except UsageError as error:
        print(f"no Java: Spark will not start ({error})", file=sys.stderr)
        return {}


def airflow() -> dict[str, str]:
    """Airflow on its embedded defaults, everything below ``.airflow``, for one person on this machine."""
    port = os.environ.get("AIRFLOW__API__PORT", "8080")  # the tasks ask where the web interface is
    return {
        "AIRFLOW_HOME": str(ROOT / ".airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        # JSON, not a URL: Airflow cannot parse spark://local[2] and would silently submit to YARN.
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }


def environment() -> dict[str, str]:
    """This process's environment plus what the project needs."""
    bin_folder = Path(sys.executable).parent
    wanted = {
        # spark-submit finds SPARK_HOME and the workers' Python through it; else it takes the system's python3
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}",
        "LAKEINDEX_HOME": str(ROOT),
        **airflow(),
    }
    env = {**wanted, **os.environ, **java()}
    # else each of the many processes of a run compiles all that it imports: of Airflow alone that is seconds
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return env


def main() -> None:
    match sys.argv[1:]:
        case ["run", "--", command, *arguments]:
            env = environment()
            os.execvpe(command, [command, *arguments], env)  # noqa: S606 - running a command is what this is for
        case ["print"]:
            wanted = environment()
            for key, value in sorted(wanted.items()):
                if os.environ.get(key) != value:
                    print(f"export {key}={shlex.quote(value)}")
            for key in sorted(os.environ.keys() - wanted.keys()):
                print(f"unset {key}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
