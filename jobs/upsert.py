"""All five stages in one Spark application: one session instead of five.

``spark-submit jobs/upsert.py --table URI --checkpoints URI --run-id ID --batch-id ID --input URI [...]``; ``--help``
says the rest. The last line on stdout is one JSON object; the exit code is the error's (docs/cli.md, exit codes).
"""

from lakeindex.runners.jobs import run_stage_job, stage_command

main = stage_command(None, run_stage_job)

if __name__ == "__main__":
    main()
