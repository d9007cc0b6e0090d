#!/usr/bin/env bash
# Installs what is missing, builds everything into build/ and runs every test; before
# that the quick part of the tests under AddressSanitizer and
# UndefinedBehaviorSanitizer. Arguments go to ctest, and leave the sanitizers out:
# tests/run.sh -R layout
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages"

cd "$root"
if [ $# -eq 0 ]; then
  tests/sanitize.sh --quick asan
fi
# A fresh build folder compiles several files at once, as that of samples/quickstart.sh:
# what works file by file may clash there, which nobody would see before a new user.
fresh=()
[ -f build/CMakeCache.txt ] || fresh=(-DMESHC_QUICK_BUILD=ON)
cmake --preset default -DMESHC_TESTS=ON "${fresh[@]}"
cmake --build build
tests/install-python ||
  echo "tests/run.sh: no packages from PyPI; tests that need one are skipped"
# Some tests wait for most of their time: one more than there are processors.
ctest --test-dir build --output-on-failure --parallel $(($(nproc) + 1)) "$@"
