// What can be fuzzed: functions that take any bytes and may only return. An Error is an answer;
// everything else (another exception, a failed CHECK, a fault that a sanitizer sees, more memory or
// time than fuzz.sh allows) is a finding.
//
// A target must not remember anything from one call to the next. libFuzzer drives them in the
// preset `asan` (fuzz_main.cc); fuzz_corpus_test.cc replays tests/fuzz/corpus in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sardonyx::fuzz {

using Bytes = std::span<const std::byte>;

// How libFuzzer changes the bytes of a target.
enum class Mutation : uint8_t {
  kBytes,
  kModel,  // as a ModelProto, by mutate_model.h
};

struct Target {
  std::string_view name;
  std::string_view doc;  // what it runs
  void (*run)(Bytes bytes);
  std::string_view corpus;  // folder of tests/fuzz/corpus with its inputs
  Mutation mutation = Mutation::kBytes;
};

const std::vector<Target>& targets();
const Target* find_target(std::string_view name);  // nullptr: unknown

// Runs `body`; whether it ended without an Error.
bool accepts(const std::function<void()>& body);

// Runs one input, with what is said to users unsaid.
void run_target(const Target& target, Bytes bytes);

void run_import(Bytes bytes);
void run_training(Bytes bytes);
void run_text(Bytes bytes);
void run_idx(Bytes bytes);
void run_cifar(Bytes bytes);
void run_npy(Bytes bytes);
void run_npz(Bytes bytes);
void run_picture(Bytes bytes);
void run_safetensors(Bytes bytes);
void run_manifest(Bytes bytes);
void run_log(Bytes bytes);
void run_tuning(Bytes bytes);

}  // namespace sardonyx::fuzz
