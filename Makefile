# make up     set up, then run the platform: broker on localhost:9092, data in ./data; Ctrl-C stops it
# make setup  virtual environment and packages; afterwards .venv/bin/ottla works, and the examples run
# make spark  set up what pipelines need besides: PySpark (435 MB), Java, Spark's Kafka connector, our Scala classes,
#             and an archive of Spark's classes, with which an application starts in two thirds of the time
# make demo   set up what it needs of that, then show it: a broker, and the word count on Spark, with counts as they change
# make test   set up everything that tests need, then lint, types, layers and tests
# make bench  ottla and Apache Kafka side by side; with ARGS=--streams ottla's streams and Kafka Streams
# make clean  remove what was made (not ./data)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := pyproject.toml constraints.txt

.PHONY: up setup pipelines spark demo test lint bench clean

up: setup
	@exec $(BIN)/ottla up

setup: $(VENV)/.runs
	@:

$(VENV)/.runs: $(PACKAGES) scripts/venv.sh
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) '.[tools,examples]'
	@touch $@

pipelines: $(VENV)/.streams
	@scripts/packages.sh $${JAVA_HOME:-java}:default-jre-headless mvn:maven
	@$(BIN)/python -m ottla.pipelines.prepare

spark: pipelines
	@$(BIN)/python -m ottla.pipelines.prepare --archive

demo: pipelines
	@exec $(BIN)/ottla demo

$(VENV)/.streams: $(PACKAGES) scripts/venv.sh
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) '.[tools,examples,services,spark]'
	@touch $@ $(VENV)/.runs

$(VENV)/.develops: $(PACKAGES) scripts/venv.sh
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) '.[dev]'
	@touch $@ $(VENV)/.runs $(VENV)/.streams

# kafkajs, and a Kafka client from before 0.11: other people's clients that the tests run
build/.clients: scripts/clients.sh tests/clients/js/package.json
	@scripts/clients.sh $(BIN)
	@touch $@

test: $(VENV)/.develops
	@scripts/packages.sh kcat:kcat node:nodejs npm:npm strace:strace
	@$(MAKE) --no-print-directory build/.clients
	@{ scripts/packages.sh javac:default-jdk-headless mvn:maven && $(BIN)/python -m bench.kafka && \
		$(BIN)/python -m bench.streams.engines && PYTHONPATH=tests:. $(BIN)/python -m support.zookeeper; } || \
		echo "The tests that need Apache Kafka or ZooKeeper are skipped, unless CI is set." >&2
	@$(BIN)/python -m ottla.pipelines.prepare --archive || \
		echo "The tests that need Spark are skipped, unless CI is set." >&2
	@scripts/check.sh $(BIN) $(ARGS)

lint: $(VENV)/.develops
	@scripts/check.sh $(BIN) --lint-only

bench: $(VENV)/.develops
	@scripts/packages.sh javac:default-jdk-headless mvn:maven gcc:gcc /usr/include/stdio.h:libc6-dev \
		/usr/include/librdkafka/rdkafka.h:librdkafka-dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" bench/run $(ARGS)

clean:
	rm -rf $(VENV) build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
