#!/bin/bash
# Packs what tools/gpu_check.sh needs on a machine that has a GPU and little else: no Debian packages, no network.
#
# The programs (preset gpu, in build/gpu) ask for nothing but the C library, at most 2.34, and libgcc_s: all other
# libraries are in them, oneDNN is left out, and cuDNN, cuBLAS and NCCL are found on the machine when a device is
# asked for. Whatever else would be needed there is listed, and nothing is packed.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: tools/gpu_bundle.sh OUTDIR [--arch NN]
  OUTDIR     gets the folder sardonyx-gpu/ and sardonyx-gpu.tar.gz
  --arch NN  the architecture of the device, without the point (default 90: H100, H200)

On the other machine:  tar xf sardonyx-gpu.tar.gz && sardonyx-gpu/gpu_check.sh

Environment:
  SARDONYX_SHARED  where fixtures/ is (default: ../shared)
END
}

most_glibc=2.34
most_bytes=$((40 * 1024 * 1024))
outdir="" arch=90
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --arch) arch=${2:?--arch needs a number}; shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) outdir=$1; shift ;;
  esac
done
[ -n "$outdir" ] || { usage >&2; exit 2; }
bundle=$outdir/sardonyx-gpu
shared=${SARDONYX_SHARED:-../shared}

# What of PROGRAM another machine might not have: libraries, and versions of the C library.
foreign() { # PROGRAM
  objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s)\.so\.[0-9]+|ld-linux-x86-64\.so\.2)$' || true
  objdump -T "$1" | grep -oE '\(?GLIBC_[0-9.]+\)? +[A-Za-z_0-9]+' | tr -d '()' |
    awk -v most=$most_glibc '{ split(substr($1, 7), v, "."); split(most, m, ".");
                               if (v[1] > m[1] || (v[1] == m[1] && v[2] > m[2])) print $2 " of " $1 }'
}

cmake --preset gpu -DCMAKE_CUDA_ARCHITECTURES="$arch-real"
cmake --build build/gpu --parallel "$(nproc)" --target sardonyx cuda_device_tests run_cases

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/fixtures" "$bundle/tests"
bad=""
for program in tools/sardonyx tests/cuda_native/cuda_device_tests tests/run_cases; do
  strip -o "$bundle/bin/$(basename "$program")" "build/gpu/$program"
  needs=$(foreign "$bundle/bin/$(basename "$program")")
  [ -z "$needs" ] || bad+=$(printf '%s needs:\n%s\n ' "$program" "$needs")
done
if [ -n "$bad" ]; then
  echo "gpu_bundle.sh: another machine may not have this (C library beyond $most_glibc, other libraries):" >&2
  echo "$bad" >&2
  rm -rf "$bundle"
  exit 1
fi

# One fixture of each network and exporter family.
for fixture in torch-ts__lenet__training-opset13 tf2onnx__lenet__opset13 torch-dynamo__lenet_slim__opset23 \
  torch-ts__resnet_tiny__training-opset17 keras-native__resnet_preact__default mxnet__resnet_tiny__default \
  torch-ts__resnet18_d2l__training-opset17 torch-ts__mobilenet__training-opset17 mxnet__mobilenet__default \
  torch-ts__squeezenet__training-opset13 paddle2onnx__lenet_softmax__opset11-dynbatch; do
  if [ -d "$shared/fixtures/$fixture" ]; then
    cp -rL "$shared/fixtures/$fixture" "$bundle/fixtures/"
  else
    echo "gpu_bundle.sh: no $shared/fixtures/$fixture; left out" >&2
  fi
done
cp tests/known_limits.txt "$bundle/tests/"
cp -r tools/gpu_check.sh tools/gpu_check docs/gpu.md "$bundle/"
rm -rf "$bundle/gpu_check/__pycache__"
git describe --always --dirty >"$bundle/version" 2>/dev/null || echo unknown >"$bundle/version"

tar -C "$outdir" -czf "$outdir/sardonyx-gpu.tar.gz" sardonyx-gpu
size() { du -sb "$1" | cut -f1; }
packed=$(size "$outdir/sardonyx-gpu.tar.gz") unpacked=$(size "$bundle")
printf '%s: %d.%d MiB, unpacked %d.%d MiB\n' "$outdir/sardonyx-gpu.tar.gz" \
  $((packed >> 20)) $(((packed >> 10) % 1024 * 10 / 1024)) $((unpacked >> 20)) $(((unpacked >> 10) % 1024 * 10 / 1024))
if [ "$packed" -gt $most_bytes ]; then
  echo "gpu_bundle.sh: more than $((most_bytes >> 20)) MiB" >&2
  exit 1
fi
