#!/usr/bin/env bash
# Installs what is missing, builds everything into build/ and runs every test.
# Arguments go to ctest: tests/run.sh -R layout
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages"

cd "$root"
cmake --preset default -DMESHC_TESTS=ON
cmake --build build
ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@"
