#!/bin/sh
# venv.sh DIR WHAT: a virtual environment in DIR with WHAT (a package path with extras) installed for development.
set -eu
dir=$1 what=$2
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }

command -v "$python" >/dev/null || {
    say "ottla needs Python 3.11 or newer, and there is no $python; set PYTHON to one."
    exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "ottla needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Set PYTHON to a newer one."
    exit 1
}
# Debian splits venv's pip off into a package of its own
"$python" -c 'import ensurepip, venv' 2>/dev/null || "$(dirname "$0")/packages.sh" :python3-venv

if [ ! -x "$dir/bin/python" ] || ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
    say "Making the virtual environment $dir"
    "$python" -m venv --clear "$dir"
fi
install() { "$dir/bin/python" -m pip install --disable-pip-version-check -c constraints.txt "$@" >&2; }

# PySpark is so large that pip shall show how far it is; pip builds a wheel of it and keeps that for the next environment
case $what in
    *spark* | *dev*)
        pyspark=$(grep '^pyspark==' constraints.txt)
        if ! "$dir/bin/python" -m pip freeze | grep -qx "$pyspark"; then
            say "Installing PySpark into $dir: 435 MB the first time, a few minutes"
            if [ -t 2 ]; then install "$pyspark"; else install --quiet "$pyspark"; fi
        fi
        ;;
esac
say "Installing $what into $dir"
install --quiet -e "$what"
