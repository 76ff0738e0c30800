#!/bin/sh
# check.sh BIN [--lint-only | arguments for pytest]: everything that must hold before a change lands.
set -eu
bin=$1
shift

step() { printf '\n== %s\n' "$*"; }

step ruff
"$bin/ruff" check .
"$bin/ruff" format --check --quiet .
step mypy
"$bin/mypy"
step layers
"$bin/lint-imports" --no-logo
[ "${1:-}" = --lint-only ] && exit 0

step tests
rm -f .coverage .coverage.*
exec "$bin/python" -m pytest -n 2 --cov --cov-report=term --durations=15 "$@"
