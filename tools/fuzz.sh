#!/bin/bash
# Fuzzes the readers of files: builds the preset `asan`, then lets libFuzzer change what stands in
# tests/fuzz/corpus. What is found goes to build/fuzz/findings; a copy in tests/fuzz/corpus/TARGET, under a name that
# says what it was, is a regression test from then on (tests/fuzz/fuzz_corpus_test.cc).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: tools/fuzz.sh [TARGET|all] [SECONDS]
       tools/fuzz.sh --list          the targets
       tools/fuzz.sh --seeds         makes tests/fuzz/corpus anew (needs the shared cases, and build/release/tools/sardonyx)
  (default: all, 60 seconds each; one target at a time per processor)

An input may take 10 seconds, 1 GiB of memory, and 512 MiB of it at once.

Environment:
  SARDONYX_FUZZ_JOBS  targets at a time and compile jobs (default: the number of processors)
  SARDONYX_FUZZ_SEED  what the changes begin from (default: another one each time)
END
}

corpus=tests/fuzz/corpus
grown=build/fuzz/corpus      # what libFuzzer adds; kept between runs
findings=build/fuzz/findings
logs=build/fuzz/logs
fuzzer=build/asan/tests/fuzz_targets
jobs=${SARDONYX_FUZZ_JOBS:-$(nproc)}
seed=${SARDONYX_FUZZ_SEED:-0}  # 0: libFuzzer takes one from the clock

export LC_ALL=C.UTF-8
export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=16:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1
limits=(-rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=10)

build() {
  cmake --preset asan >/dev/null
  cmake --build build/asan --parallel "$jobs" --target fuzz_targets
  # Scratch files: in memory where the system has such a place.
  local scratch=/dev/shm
  [ -w $scratch ] || scratch=${TMPDIR:-/tmp}
  TMPDIR=$(mktemp -d -p "$scratch" sardonyx-fuzz-XXXXXX)
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
}

list() {
  sed -n 's/^ *{"\([a-z]*\)", ".*/\1/p' tests/fuzz/target.cc
}

corpus_of() { # TARGET
  case $1 in
    import | model | train) echo model ;;
    *) echo "$1" ;;
  esac
}

largest_input() { # TARGET
  case $1 in
    import | model) echo 65536 ;;
    train | text) echo 16384 ;;
    *) echo 8192 ;;
  esac
}

fuzz() { # TARGET SECONDS
  local target=$1 log=$logs/$1.log status=0
  mkdir -p "$grown/$target" "$findings" "$logs"
  "$fuzzer" --target="$target" "${limits[@]}" -max_total_time="$2" -max_len="$(largest_input "$target")" \
    -seed="$seed" -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$grown/$target" "$corpus/$(corpus_of "$target")" \
    >"$log" 2>&1 || status=$?
  local seen runs verdict=nothing
  seen=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1)
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  [ $status -eq 0 ] || verdict="FOUND: $(grep -m 1 -E 'SUMMARY:|ERROR:' "$log" || echo "status $status"), see $log"
  printf '%-12s %9s runs  %-20s %s\n' "$target" "${runs:-?}" "$seen" "$verdict"
  return $status
}

# The smallest set of candidates that reaches what all of them reach.
make_seeds() {
  local all kept name target sum file
  all=$(mktemp -d)
  python3 -B tests/fuzz/seeds.py "$all" build/release/tools/sardonyx >/dev/null
  for target in $(list | grep -vE '^(import|model)$'); do
    name=$(corpus_of "$target") kept=$(mktemp -d)
    mkdir -p "$corpus/$name"
    "$fuzzer" --target="$target" "${limits[@]}" -set_cover_merge=1 "$kept" "$all/$name" >/dev/null 2>&1
    # What people put there stays. libFuzzer names what it keeps after the content.
    find "$corpus/$name" -name '*.seed' -delete
    local -A names=()
    while read -r sum file; do names[$sum]=${file##*/}; done < <(sha1sum "$all/$name"/*)
    for file in "$kept"/*; do mv "$file" "$corpus/$name/${names[${file##*/}]}"; done
    echo "$name: $(find "$corpus/$name" -type f | wc -l) inputs, $(du -sb "$corpus/$name" | cut -f 1) bytes"
  done
}

case ${1:-} in
  --help | -h) usage; exit 0 ;;
  --list) list; exit 0 ;;
  --seeds) build; make_seeds; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
targets=${1:-all} seconds=${2:-60}
if [ "$targets" = all ]; then
  targets=$(list)
elif ! list | grep -qx -- "$targets"; then
  echo "fuzz.sh: there is no target $targets; there are: $(list | tr '\n' ' ')" >&2
  exit 2
fi
build

for target in $targets; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  fuzz "$target" "$seconds" || touch "$TMPDIR/failed" &
done
wait
[ ! -e "$TMPDIR/failed" ]
