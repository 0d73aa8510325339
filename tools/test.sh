#!/bin/bash
# All tests, on a bare machine too: installs the packages, then runs up to four stages.
#
#   release  every test                                     asan  every compiled test, address + undefined
#   tsan     the tests of runtime/ and passes/, where the threads are
#   fuzz     tools/fuzz.sh: 20 seconds of changed files for each reader
#
# Release comes first because it finds most faults soonest; the slow sanitizer builds follow. A failed
# stage doesn't stop the next one. The last line is a closing line that ctest wrote: that of the first
# stage that failed, else that of the release stage, so it can't say 100 % when anything failed; of the stage
# fuzz, which has no ctest, a line of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
Usage: tools/test.sh [--release-only | --asan | --tsan | --fuzz]
  (no option)     the stages release, asan, tsan and fuzz
  --release-only  only the release stage
  --asan          only the address and undefined-behaviour stage
  --tsan          only the thread stage
  --fuzz          only the fuzzing stage

Environment:
  SARDONYX_TEST_BUDGET  seconds that the tests of one sanitizer stage may take (default 1500); a stage
                        that reaches it is stopped and fails. Builds are not counted.
  SARDONYX_TEST_JOBS    compile jobs (default: the number of processors). Tests always run two at a
                        time, since they start threads of their own.
END
}

stages=(release asan tsan fuzz)
case ${1:-} in
  "") ;;
  --release-only) stages=(release) ;;
  --asan) stages=(asan) ;;
  --tsan) stages=(tsan) ;;
  --fuzz) stages=(fuzz) ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
budget=${SARDONYX_TEST_BUDGET:-1500}
jobs=${SARDONYX_TEST_JOBS:-$(nproc)}

# Messages that ctest greps and people read must not depend on the locale.
export LC_ALL=C.UTF-8
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

build() { # PRESET TARGET...
  local preset=$1
  shift
  cmake --preset "$preset" || return
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"} || return
}

run_tests() { # PRESET COMMAND...: writes build/PRESET/ctest.log
  local preset=$1
  shift
  (cd "build/$preset" && "$@") 2>&1 | tee "build/$preset/ctest.log"
  return "${PIPESTATUS[0]}"
}

run_stage() { # PRESET
  local ctest=(ctest --output-on-failure --no-tests=error -j2)
  # The label `house` marks the checks of the source text, which need no second run; a test whose name
  # ends in `_slow` is too slow for a sanitizer.
  local sanitized=(timeout --kill-after=10 "$budget" "${ctest[@]}" --exclude-regex '_slow$')
  case $1 in
    release)
      build release && run_tests release "${ctest[@]}"
      ;;
    asan)
      build asan && run_tests asan "${sanitized[@]}" --label-exclude '^house$'
      ;;
    tsan)
      # ThreadSanitizer of g++ 12 can't map its shadow memory where address randomisation is wide.
      local fixed=()
      ! setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null ||
        fixed=(setarch "$(uname -m)" --addr-no-randomize)
      build tsan runtime_tests passes_tests &&
        run_tests tsan "${fixed[@]}" "${sanitized[@]}" --label-regex '^(runtime|passes)$'
      ;;
    fuzz)
      # One seed: a change is judged by what it does to the same inputs, not by luck.
      SARDONYX_FUZZ_JOBS=$jobs SARDONYX_FUZZ_SEED=1 tools/fuzz.sh all 20
      ;;
  esac
}

closing_line() { # PRESET
  grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "build/$1/ctest.log" 2>/dev/null |
    tail -n 1
}

tools/install_packages.sh

table=() failed=""
for stage in "${stages[@]}"; do
  echo "=== $stage"
  rm -f "build/$stage/ctest.log"
  start=$SECONDS status=0
  run_stage "$stage" || status=$?
  case $status in
    0) verdict=passed ;;
    124 | 137) verdict="FAILED: its tests took more than $budget s" ;;
    *) verdict=FAILED ;;
  esac
  if [ $status -ne 0 ] && [ -z "$failed" ]; then failed=$stage; fi
  table+=("$(printf '%-8s %6d s  %-8s %s' "$stage" $((SECONDS - start)) "$verdict" "$(closing_line "$stage")")")
  echo "=== $stage $verdict after $((SECONDS - start)) s"
done

echo
printf '%s\n' "${table[@]}"
shown=${failed:-${stages[0]}}
if [ "$shown" = fuzz ]; then
  [ -n "$failed" ] && echo "test.sh: the stage fuzz FAILED (see above)" && exit 1
  echo "test.sh: the stage fuzz found nothing" && exit
fi
if ! closing_line "$shown"; then
  echo "test.sh: the stage $shown ended before ctest could sum up (see above)"
  exit 1
fi
[ -z "$failed" ]
