#!/bin/sh
# clients.sh BIN: clients that the tests run besides those of constraints.txt, into build/js and build/legacy-client.
set -eu
bin=$1
rm -rf build/js build/legacy-client
mkdir -p build/js
cp tests/clients/js/package.json tests/clients/js/.npmrc build/js/
echo "Installing kafkajs and kafka-python 1.4.7 into build" >&2
(cd build/js && npm install --silent --no-audit --no-fund)
# xxhash: what that client needs for lz4 in message format 0
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target build/legacy-client kafka-python==1.4.7 xxhash==4.1.0
