"""Stage 1: key the batch, set bad rows aside, combine duplicates, sort.

``spark-submit jobs/stage_input.py --table URI --checkpoints URI --run-id ID --batch-id ID --input URI [...]``;
``--help`` says the rest. The last line on stdout is one JSON object; the exit code is the error's
(docs/cli.md, exit codes).
"""

from lakeindex.pipeline import Stage
from lakeindex.runners.jobs import run_stage_job, stage_command

main = stage_command(Stage.STAGE_INPUT, run_stage_job)

if __name__ == "__main__":
    main()
