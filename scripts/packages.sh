#!/bin/sh
# packages.sh [COMMAND|FILE]:PACKAGE...: Debian packages, installed where the command or file is missing and we are root.
# An empty COMMAND means missing.
set -eu

missing=
for pair in "$@"; do
    thing=${pair%%:*} package=${pair#*:}
    case $thing in
        '') ;;
        /*) [ -e "$thing" ] && continue ;;
        *) command -v "$thing" >/dev/null && continue ;;
    esac
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "These system packages are missing:$missing. Install them (as root: apt-get install$missing) and run this again." >&2
    exit 1
fi
echo "Installing system packages:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
mkdir -p build
log=build/apt.log
rm -f build/apt.failed

# the package lists of a fresh machine may be absent or old
# shellcheck disable=SC2086
install() {
    apt-get install -y --no-install-recommends $missing ||
        { apt-get update && apt-get install -y --no-install-recommends $missing; }
}

# what goes into the log, in one line for whoever waits at a terminal
shown() {
    if [ -t 2 ]; then
        tee $log | while IFS= read -r line; do printf '\r\033[K%.79s' "$line" >&2; done
        printf '\r\033[K' >&2
    else
        cat >$log
    fi
}

{ install 2>&1 </dev/null || touch build/apt.failed; } | shown
[ ! -e build/apt.failed ] || {
    tail -n 20 $log >&2
    echo "apt-get could not install$missing; its whole output is in $log." >&2
    exit 1
}
