// What libFuzzer calls: fuzz_targets --target=NAME [libFuzzer's flags] FOLDER...
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/mutate_model.h"
#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

const sardonyx::fuzz::Target* chosen = nullptr;

sardonyx::fuzz::Bytes bytes_of(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

// Copies what fits; else the old bytes stay.
size_t put(const std::string& bytes, uint8_t* out, size_t size, size_t max_size) {
  if (bytes.empty() || bytes.size() > max_size) return size;
  std::memcpy(out, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with(kFlag)) {
      chosen = sardonyx::fuzz::find_target(argument.substr(kFlag.size()));
    }
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "fuzz_targets needs --target=NAME, one of\n");
  for (const auto& target : sardonyx::fuzz::targets()) {
    std::fprintf(stderr, "  %-12s %s\n", target.name.data(), target.doc.data());
  }
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sardonyx::fuzz::run_target(*chosen, bytes_of(data, size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using sardonyx::fuzz::Mutation;
  if (chosen->mutation == Mutation::kBytes) return LLVMFuzzerMutate(data, size, max_size);
  return put(sardonyx::fuzz::mutate_model(bytes_of(data, size), seed), data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size,
                                            const uint8_t* other, size_t other_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  if (chosen->mutation == sardonyx::fuzz::Mutation::kBytes) {  // the head of one, the tail of other
    const size_t head = std::min(one_size, max_size) * (seed % 16) / 16;
    const size_t tail = std::min(other_size, max_size - head);
    std::memcpy(out, one, head);
    std::memcpy(out + head, other + other_size - tail, tail);
    return head + tail;
  }
  return put(
      sardonyx::fuzz::cross_models(bytes_of(one, one_size), bytes_of(other, other_size), seed), out,
      0, max_size);
}
