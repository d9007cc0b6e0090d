#!/usr/bin/env bash
# Runs tests and measurements on a machine with an NVIDIA GPU and writes a report.
#
#   bench/gpu.sh build [BYTES]
#                         on any x86-64 machine: builds, compiles the executables,
#                         writes the kernel tests, packs everything into
#                         build/gpu and build/gpu.tar.xz, without kernel tests whose
#                         files are larger than BYTES, as the report says
#   bench/gpu.sh run DIR [--parts PART,...] [--budget SECONDS | PART=SECONDS,...]
#                         on the machine with the GPU, where bench/ and build/gpu
#                         (or build/gpu.tar.xz) lie: measures the parts, or what the
#                         report in DIR lacks, and adds them to it as it goes
#
# Without an argument it does both, into bench/results. --help lists the parts. `run`
# needs Python 3.11, a C library as new as the one here, the driver, cuBLASLt and NCCL, and
# no network.
# PyTorch and JAX, which are gigabytes with their CUDA libraries, are not carried:
# where the Python that MESHC_PEERS_PYTHON names (or python3) has them they are
# measured, else the report says so, as it does without compute-sanitizer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
folder=build/gpu
archive=build/gpu.tar.xz
usage="usage: bench/gpu.sh [build [BYTES] | run DIR [options] | --help]"

# The shared libraries that the executables need, but for the C library's own.
copy_libraries() {
  mkdir -p "$folder/lib"
  ldd "$folder"/gpu_matmuls "$folder"/kernel_replay "$folder"/00-cuda |
    awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
    grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
    xargs -I{} cp -L {} "$folder/lib/"
}

# Kernel tests larger than so many bytes are left out, and the report says so.
leave_out() {
  local all
  all=$(find "$folder/kernels" -name '*.case' | wc -l)
  find "$folder/kernels" -name '*.case' -size "+${1}c" -delete
  python3 - "$folder" "$1" "$all" <<'EOF'
import json, pathlib, sys
folder, size, count = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
left = count - len(list((folder / "kernels").iterdir()))
cases = json.loads((folder / "cases.json").read_text())
cases["left_out"] = f"{left} of {count} kernel tests, whose files are larger than {size:,} bytes"
(folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
EOF
}

build() {
  .ci/install-packages build
  cmake --preset default
  cmake --build build --target \
    meshc meshc_runtime_main meshc_kernel_replay meshc-gpu-matmuls codegen_kernel_tests
  rm -rf "$folder" "$archive"
  python3 -B bench/gpu_cases.py build/bin/meshc "$folder"
  cp build/bin/meshc_kernel_replay "$folder/kernel_replay"
  cp build/bin/meshc-gpu-matmuls "$folder/gpu_matmuls"
  MESHC_KERNEL_CASES=$folder/kernels MESHC_KERNEL_CASES_GPU=sm_80,sm_90 \
    build/bin/codegen_kernel_tests --gtest_brief=1
  [ -z "${1:-}" ] || leave_out "$1"
  copy_libraries
  # Executables end with their model, which strip would take away.
  strip --strip-debug "$folder"/kernel_replay "$folder"/gpu_matmuls
  # They share the runtime, and lie next to each other: a window of two of them finds it.
  XZ_OPT=--lzma2=preset=6,dict=64MiB tar -C build --sort=name -cJf "$archive" gpu
  sha256sum <"$archive" >"$folder/archive"
  du -sh "$folder" "$archive"
}

# Unpacks an archive that is there, unless the folder is what was in it. That takes
# nothing but Python: xz may not be there.
unpack() {
  [ -f "$archive" ] || return 0
  local sum
  sum=$(sha256sum <"$archive")
  [ "$(cat "$folder/archive" 2>/dev/null)" != "$sum" ] || return 0
  rm -rf "$folder" build/unpacked
  python3 -m tarfile -e "$archive" build/unpacked
  echo "$sum" >build/unpacked/gpu/archive
  mv build/unpacked/gpu "$folder"
  rmdir build/unpacked
}

run() {
  unpack
  exec python3 -B bench/gpu_run.py "$folder" "$@"
}

case "${1:-all}" in
build)
  if [ $# -gt 2 ] || [[ ! ${2:-0} =~ ^[0-9]+$ ]]; then
    echo "$usage: BYTES is a number" >&2
    exit 2
  fi
  build "${2:-}"
  ;;
run)
  if [ $# -lt 2 ]; then
    echo "$usage: DIR is the folder for the report" >&2
    exit 2
  fi
  run "${@:2}"
  ;;
all)
  build
  run bench/results
  ;;
--help)
  echo "$usage; the options of run are those of"
  exec python3 -B bench/gpu_run.py --help
  ;;
*)
  echo "$usage" >&2
  exit 2
  ;;
esac
