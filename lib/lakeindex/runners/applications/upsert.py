"""All five stages in one Spark application: one session instead of five.

Part of the installed package, so that ``LakeIndexUpsertOperator`` finds it wherever the library is; ``jobs/upsert.py`` is
the same from a checkout. It has a folder of its own because spark-submit puts a script's folder in front of ``sys.path``.
"""

from lakeindex.runners.job_arguments import stage_command
from lakeindex.runners.jobs import run_stage_job

main = stage_command(None, run_stage_job)

if __name__ == "__main__":
    main()
