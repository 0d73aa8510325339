#!/bin/bash
# From a fresh clone to a trained model: installs the packages, builds, writes LeNet as an ONNX file,
# trains it on Fashion-MNIST and evaluates the file that training saved. Results: build/quickstart/.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: tools/quickstart.sh [--epochs N] [--build-only]
  --epochs N    epochs to train (default 5)
  --build-only  install and build, then stop
END
}

epochs=5 train=yes
while [ $# -gt 0 ]; do
  case $1 in
    --epochs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || {
        echo "quickstart.sh: --epochs needs a whole number above 0, found '${2:-}'" >&2
        exit 2
      }
      epochs=$2
      shift 2
      ;;
    --build-only) train=no; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

say() { printf '\n== %s\n' "$*"; }

tools/install_packages.sh
say "Building (build/release)"
cmake --preset release
cmake --build build/release --parallel "$(nproc)" --target sardonyx
sardonyx=build/release/tools/sardonyx
if [ $train = no ]; then
  echo "Built $sardonyx"
  exit 0
fi

out=build/quickstart
mkdir -p $out
rm -f $out/train.jsonl

say "Writing LeNet as an ONNX file"
$sardonyx model lenet -o $out/lenet.onnx --init kaiming

say "Training on Fashion-MNIST, $epochs epochs"
$sardonyx train $out/lenet.onnx --data fashion-mnist --epochs "$epochs" --batch 256 --lr 0.2 \
  --save $out/trained.onnx --log $out/train.jsonl --plot $out/curve.svg

say "Evaluating the saved file"
$sardonyx eval $out/trained.onnx --data fashion-mnist

accuracy=$(sed -n 's/.*"test_accuracy": *\([0-9.eE+-]*\).*/\1/p' $out/train.jsonl | tail -n 1)
say "Done"
echo "test accuracy   ${accuracy:-not in $out/train.jsonl}"
echo "trained model   $out/trained.onnx"
echo "learning curve  $out/curve.svg"
echo "log             $out/train.jsonl"
