// Plans have the parts of these operators, not the operators: there is nothing faster to add here.
#include "ops/preview_training/preview_training.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void register_preview_training_cpu(KernelRegistry& kernels) {
  using namespace preview_training;
  const std::pair<const char*, ComposeRule> rules[] = {
      {"Momentum", write_momentum}, {"Adagrad", write_adagrad}, {"Adam", write_adam}};
  for (const auto& [op, rule] : rules) {
    KernelDef def = composed_kernel(op, "preview_training.ref", rule);
    def.domain = kPreviewDomain;
    kernels.add(std::move(def));
  }
}

}  // namespace sardonyx::ops
