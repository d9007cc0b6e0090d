# For the scripts beside it: installs what is missing and builds meshc; sets
# `meshc`, and goes to the root of the repository.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/.ci/install-packages" build run

cd "$root"
# A build folder that exists keeps its choices.
fresh=()
[ -f build/CMakeCache.txt ] || fresh=(-DMESHC_TESTS=OFF -DMESHC_QUICK_BUILD=ON)
cmake --preset default "${fresh[@]}"
# With the runtime that it links into programs for CPUs.
cmake --build build --target meshc
meshc=build/bin/meshc
