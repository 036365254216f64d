"""All five stages in one Spark application: one session instead of five.

``spark-submit jobs/upsert.py --table URI --checkpoints URI --run-id ID --batch-id ID --input URI [...]``; ``--help`` says the
rest. The last line on stdout is one JSON object; the exit code is the error's (README, exit codes).
"""

from lakeindex.runners.applications.upsert import main

if __name__ == "__main__":
    main()
