#!/usr/bin/env bash
# Installs what is missing, builds everything into build/ and runs every test.
# Arguments go to ctest: tests/run.sh -R layout. Without any, the runtime is also
# built and tested with sanitizers, see tests/sanitize.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages"

cd "$root"
cmake --preset default -DMESHC_TESTS=ON
cmake --build build
if [ $# -eq 0 ]; then
  tests/sanitize.sh --quick
fi
ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@"
