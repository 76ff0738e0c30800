#!/bin/sh
# Every kafka-*.sh beside this file is a link to it: the command of that name in the virtual environment of this repository.
here=$(dirname "$(readlink -f "$0")")
name=$(basename "$0" .sh)
[ -x "$here/../.venv/bin/$name" ] || {
    echo "$name: run \`make setup\` in $(dirname "$here") first" >&2
    exit 1
}
exec "$here/../.venv/bin/$name" "$@"
