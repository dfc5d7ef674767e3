# Written for GNU make 3.81 as macOS ships it, and for any POSIX shell. Nothing has to be installed beforehand
# but make and Python 3.11 or newer with its venv module.

PYTHON ?= python3
# What is installed for a Python that the command line names has a folder of its own: `make test PYTHON=python3.13`.
VERSION_OF_PYTHON = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv$(if $(findstring command,$(origin PYTHON)),-$(VERSION_OF_PYTHON))
BIN := $(VENV)/bin
# Younger than what it was installed from, or everything is installed again.
STAMP := $(VENV)/.installed
# Spark's JVMs start in half of the time with it: the tests start eight.
CLASSES := $(VENV)/.classes
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
  --config-settings editable_mode=compat -e
# For the test runner, e.g. make test PYTEST_ARGS="-k rebalance -x"; then without the checks.
PYTEST_ARGS ?=
# For the benchmark, e.g. make bench BENCH_ARGS=--json
BENCH_ARGS ?=
# For the crash harness, e.g. make crash CRASH_ARGS="--kills 20 --seed 7"
CRASH_ARGS ?=
# For the same with replicas, e.g. make crash-copies COPIES_ARGS="--faults 10 --failovers 10 --handovers 10 --losses 1 --seed 7"
COPIES_ARGS ?=
# For the runs with an earlier commit, or with the oldest Spark, e.g. make compat COMPAT_ARGS="--seconds 30"
COMPAT_ARGS ?=
# For the clients of RocketMQ: features, mixed, docs
INTEROP_ARGS ?=
# For the torture in virtual time, e.g. make torture TORTURE_ARGS="--seed 7"
TORTURE_ARGS ?=
# For the soak with real processes, e.g. make soak SOAK_ARGS="--minutes 5 --rate 1000"
SOAK_ARGS ?=
# For the attacks on a real broker, e.g. make attack ATTACK_ARGS="--only flood --plain"
ATTACK_ARGS ?=
# For the coverage: which tests to measure, e.g. make coverage COVERAGE_ARGS=tests/unit/client
COVERAGE_ARGS ?=
# For the tests of the wheel: which to run, e.g. make wheel-test WHEEL_ARGS=tests/unit/client
WHEEL_ARGS ?=

# Tests, benchmarks and the demo start hundreds of Python processes, and without bytecode each compiles every module
# anew; some environments forbid to keep it, which is for images and not for this.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage wheel-test console-test check walks lint bench peers compat compat-spark interop crash crash-copies crash-spark torture soak attack mutants clocks pages site wheel release clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make .venv with the pinned versions (again only when they change)

demo: $(STAMP) ## run the main job: a cluster, a living consumer group, a verdict, and a report of it
	@$(BIN)/rlab demo --report report

# The part of `make check` that is not in `lint` is tests, which are among these.
test: $(CLASSES) ## run every test and, beside them, the checks (PYTEST_ARGS="-k name" for some tests, without the checks)
	@tools/beside.sh '$(if $(PYTEST_ARGS),,$(MAKE) --no-print-directory lint)' $(BIN)/python -m pytest -n auto --maxprocesses 8 $(PYTEST_ARGS)

console-test: $(STAMP) ## walk through rlab console in a headless Chromium (CONSOLE_ARGS=scale measures)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  --config-settings editable_mode=compat -e '.[browser]'
	@$(BIN)/python -m tests.browser.$(or $(CONSOLE_ARGS),walk)

# Since Python 3.12 the interpreter itself reports each line once (sysmon), which is the cheaper of the two. The floor of
# pyproject.toml is of all of these tests: some of them alone do not reach it.
coverage: $(STAMP) ## measure which lines tests/unit and tests/property run, and compare with the floor (COVERAGE_ARGS=tests/unit/client)
	@$(PIP) '.[coverage]'
	@rm -rf build/coverage
	@COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
	  $(BIN)/python -m coverage run -m pytest -q -n auto --maxprocesses 8 $(or $(COVERAGE_ARGS),tests/unit tests/property)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage html --quiet --fail-under=0
	@echo 'Lines that no test runs: build/coverage/html/index.html'
	@$(BIN)/python -m coverage report --format=total $(if $(COVERAGE_ARGS),--fail-under=0)

check: lint ## format, lint, types, import rules, and the style that no linter knows
	$(BIN)/python -m pytest -q tests/unit/test_tidy.py tests/unit/test_rooms.py tests/unit/test_prose.py \
	  tests/unit/test_stale_words.py

# The files are named because importing all others takes longer than these tests.
walks: $(STAMP) ## run the tests that walk over all commands, requests, calls, tables, limits, names and pages
	@$(BIN)/python -m pytest -q -m walk $(PYTEST_ARGS) $$(grep -rl --include='test_*.py' 'pytest\.mark\.walk' tests)

lint: $(STAMP) ## the checks that are no tests: format, lint and types of Python, and lint of JavaScript and CSS
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	@tools/lint_web.sh

bench: $(STAMP) ## measure throughput, latency and convergence (BENCH_ARGS=--json for a document)
	@$(BIN)/rlab bench $(BENCH_ARGS)

compat: $(STAMP) ## run processes of an earlier commit with those of this one (needs the history of git)
	@$(BIN)/python -m tests.compat.processes $(COMPAT_ARGS)

compat-spark: $(STAMP) ## run the tests of Spark with the oldest pyspark that pyproject.toml allows (COMPAT_ARGS=tests/spark/test_sink.py)
	@$(BIN)/python -m tests.compat.oldest_spark $(COMPAT_ARGS)

# What cannot be installed is left out; the benchmark says what it misses.
peers: $(STAMP) ## install what `rlab bench --peers redis,nats,kafka` compares with (Debian packages need root)
	@$(PIP) '.[peers]'
	@if command -v redis-server >/dev/null && command -v nats-server >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then apt-get install -y --no-install-recommends redis-server nats-server || \
	  echo 'redis-server or nats-server could not be installed: try again as root, after apt-get update.' >&2; \
	else echo 'Install redis-server and nats-server with the package manager of this system.' >&2; fi
	@if command -v mvn >/dev/null; then mvn -q -B -f testbed/bench/peers/systems/kafka.xml dependency:copy-dependencies \
	  -DoutputDirectory="$(CURDIR)/$(VENV)/peers/kafka" && \
	  mvn -q -B -f testbed/bench/peers/systems/spark_kafka.xml dependency:copy-dependencies \
	  -DincludeArtifactIds=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2 \
	  -DoutputDirectory="$(CURDIR)/$(VENV)/peers/spark-kafka"; \
	else echo 'Kafka is left out: there is no mvn (Maven) to get its jars with.' >&2; fi

interop: $(STAMP) ## run clients of RocketMQ on our brokers and on its own (INTEROP_ARGS="features go docs", RECORD=1)
	@$(BIN)/python -m tests.interop.run $(INTEROP_ARGS)

crash: $(STAMP) ## kill brokers under load 200 times, lose nothing (CRASH_ARGS="--kills 20 --seed 7")
	@$(BIN)/rlab crash $(CRASH_ARGS)

crash-copies: $(STAMP) ## the same with copies: 200 faults of replicas and masters and handovers, 3 lost disks (COPIES_ARGS="--faults 10")
	@$(BIN)/rlab crash --copies 2 $(COPIES_ARGS)

crash-spark: $(CLASSES) ## kill 10 drivers and 5 executors of Spark that copy a topic exactly once: 60,000 of 60,000 messages
	@RLAB_SPARK_KILLS=10 RLAB_SPARK_EXECUTOR_KILLS=5 RLAB_SPARK_ROWS=60000 RLAB_SPARK_ROWS_PER_BATCH=1000 \
	  $(BIN)/python -m pytest -q -x tests/spark/drivers/test_kills.py

torture: $(STAMP) ## an hour of faults in virtual time (TORTURE_ARGS="--seed 7")
	@$(BIN)/rlab sim --kind torture $(TORTURE_ARGS)

soak: $(STAMP) ## half an hour of load and kills with real processes (SOAK_ARGS="--minutes 5 --rate 1000")
	@$(BIN)/python -m testbed.soak.run $(SOAK_ARGS)

attack: $(STAMP) ## attack a real broker, and measure how late its client is answered (ATTACK_ARGS="--only flood")
	@$(BIN)/python -m testbed.attack.run $(ATTACK_ARGS)

mutants: $(STAMP) ## plant bugs in the real code, and let simulated runs find each (some 10 minutes)
	@$(BIN)/python -m tests.simulation.mutants

clocks: $(STAMP) ## 1,000 simulated programmes, half of them with wrong clocks: no tool accuses anybody, and bugs are still named
	@$(BIN)/rlab sim --seeds 1000 --wrong-clocks
	@$(BIN)/python -m tests.simulation.mutants --wrong-clocks

wheel-test: $(STAMP) ## test the wheel, installed beside packages client and model of somebody (WHEEL_ARGS="tests/unit -k name")
	@$(PIP) '.[site]'
	@$(BIN)/python -m tools.wheel_test $(WHEEL_ARGS)

pages: $(STAMP) ## write the pages again that are made from the code, or from runs of it
	@mkdir -p build
	@$(BIN)/python -m remoting.wire.docs > build/page && cp build/page docs/wire-protocol.md
	@$(BIN)/python -m metrics.page > build/page && cp build/page docs/metrics.md
	@$(BIN)/python -m tests.docs.floor_plan > build/page && cp build/page docs/architecture.md
	@$(BIN)/python -m tools.rocketmq_names > build/page && cp build/page docs/rocketmq-names.md
	@for each in one_message one_rebalance one_transaction strategies_table; do \
	  $(BIN)/python examples/pages/$$each.py docs > build/page || exit 1; done

site: $(STAMP) ## build the documentation as a site into build/site, with warnings as errors
	@$(PIP) '.[site]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'build/site/index.html'

wheel: $(BIN)/python ## build the wheel in dist/, to install elsewhere; it needs no setup
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@for each in dist/*.whl; do echo "Into another environment, with what tests need: pip install '$(CURDIR)/$$each[test]'"; done

release: $(STAMP) ## make wheel, source archive, image, notes and checksums of this version in dist/
	@$(PIP) '.[site]'
	@$(BIN)/python -m tools.release

clean: ## remove everything that make, the tools and the demo leave behind
	rm -rf .venv .venv-* build dist *.egg-info .demo .bench report
	rm -rf .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The two checks come first because what Python says by itself when it is too old, or when Debian has split venv off,
# does not tell what to do. In the mode `compat` the packages are found by their folder; in the other one code runs at
# every start of Python to find them, which takes as long again.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Python 3.11 or newer is needed, and "$(PYTHON)" is not one.' >&2; \
	  echo 'Name one that is: make PYTHON=python3.12 $(MAKECMDGOALS)' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo '"$(PYTHON)" comes without venv. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing into $(VENV) what rlab, its tests and Spark need: about 1.2 GB, of which half is Spark with its Java.'
	@echo 'It takes a minute or two, depending on the network, and is done again only when constraints.txt changes ...'
	@$(PIP) '.[dev,spark,spark-connect,spark-jdk]'
	@touch $(STAMP)
	@echo 'Installed. To have rlab in your shell: . $(BIN)/activate'

$(CLASSES): $(STAMP)
	@$(BIN)/python -m rlab.pipeline.spark.make_archive || echo 'The tests of Spark start slowly, without an archive.' >&2
	@touch $(CLASSES)
