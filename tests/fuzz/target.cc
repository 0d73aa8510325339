#include "tests/fuzz/target.h"

#include <algorithm>

#include "graph/support/error.h"
#include "graph/support/log.h"

namespace sardonyx::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = {
      {"import", "a model's bytes, up to the training graph", run_import, "model"},
      {"model", "the same, changed as a model", run_import, "model", Mutation::kModel},
      {"train", "two steps, an evaluation and a save of a small model", run_training, "model",
       Mutation::kModel},
      {"text", "the text form of a graph, there and back", run_text, "text"},
      {"idx", "IDX files, plain and compressed", run_idx, "idx"},
      {"cifar", "CIFAR-10 and CIFAR-100", run_cifar, "cifar"},
      {"npy", ".npy, and its arrays as labels and targets", run_npy, "npy"},
      {"npz", ".npz", run_npz, "npz"},
      {"picture", "PNG and JPEG, alone and in a folder of classes", run_picture, "picture"},
      {"safetensors", "the states of a checkpoint", run_safetensors, "safetensors"},
      {"manifest", "the manifest of a checkpoint, and its settings as flags", run_manifest,
       "manifest"},
      {"log", "the log that a resumed run cuts", run_log, "log"},
      {"tuning", "the cache of --tune", run_tuning, "tuning"},
  };
  return kTargets;
}

const Target* find_target(std::string_view name) {
  const auto found = std::find_if(targets().begin(), targets().end(),
                                  [&](const Target& target) { return target.name == name; });
  return found == targets().end() ? nullptr : &*found;
}

bool accepts(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void run_target(const Target& target, Bytes bytes) {
  const support::ScopedLogSink unsaid([](support::LogLevel, std::string_view) {});
  target.run(bytes);
}

}  // namespace sardonyx::fuzz
