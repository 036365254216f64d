"""Any command of ``lakeindex`` as a Spark application, where its tasks are many: clustering, maintenance, an index.

``spark-submit jobs/command.py cluster TABLE --runner spark [...]``; arguments, output and exit code are the command's
(docs/cli.md).
"""

from lakeindex.cli import main

if __name__ == "__main__":
    main()
