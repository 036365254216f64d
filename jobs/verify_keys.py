"""Stage 4: find the candidate keys in the files, exactly.

``spark-submit jobs/verify_keys.py --table URI --checkpoints URI --run-id ID --batch-id ID --input URI [...]``;
``--help`` says the rest. The last line on stdout is one JSON object; the exit code is the error's
(docs/cli.md, exit codes).
"""

from lakeindex.pipeline import Stage
from lakeindex.runners.jobs import run_stage_job, stage_command

main = stage_command(Stage.VERIFY_KEYS, run_stage_job)

if __name__ == "__main__":
    main()
