#include "ops/core/cuda_native/cudnn_plan.h"

#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/cuda_native/cudnn_library.h"

namespace sardonyx::ops::cudnn {

namespace {

// What the library is told of the alignment of all memory.
constexpr int64_t kAlignment = 16;
// More than a heuristic has ever offered for a convolution.
constexpr size_t kMostCandidates = 128;

std::vector<void*> pointers(std::span<const Descriptor> descriptors) {
  std::vector<void*> list;
  for (const Descriptor& descriptor : descriptors) list.push_back(descriptor.get());
  return list;
}

std::vector<Descriptor> descriptors(cudnnBackendDescriptorType_t type, size_t count) {
  std::vector<Descriptor> list;
  for (size_t i = 0; i < count; ++i) list.emplace_back(type);
  return list;
}

// The library calls the handle an outdated way to say what a plan is for, but versions that are in
// use know no other for a device that is there.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr auto kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
constexpr auto kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

Descriptor operation_graph(const PlanTarget& target, std::span<const Descriptor> operations) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (target.handle != nullptr) graph.set_one(kGraphHandle, target.handle);
  graph.finalize();
  return graph;
}

std::vector<Descriptor> candidates(const PlanTarget& target, const Descriptor& graph,
                                   cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set_one(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.properties != nullptr) {
    heuristic.set_descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  }
  heuristic.finalize();
  std::vector<Descriptor> configs =
      descriptors(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostCandidates);
  const size_t count = heuristic.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs);
  configs.erase(configs.begin() + static_cast<std::ptrdiff_t>(count), configs.end());
  return configs;
}

Descriptor execution_plan(const PlanTarget& target, const Descriptor& config) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (target.handle != nullptr) plan.set_one(kPlanHandle, target.handle);
  if (target.properties != nullptr) {
    plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  }
  plan.finalize();
  return plan;
}

// Why no candidate became a plan.
struct Refusals {
  size_t notes = 0, workspace = 0;
  size_t least_workspace = SIZE_MAX;
  std::string failure;  // the first one's

  std::string sentence(size_t limit) const {
    std::string text;
    if (notes > 0) text += fmt::format("; {} engines round in a way that is ruled out", notes);
    if (workspace > 0) {
      text += fmt::format("; {} need more than {} bytes of workspace, the least {}", workspace,
                          limit, least_workspace);
    }
    if (!failure.empty()) text += "; " + failure;
    return text.empty() ? "it offers none" : text.substr(2);
  }
};

// The plan of one candidate; nullptr when it is none, and `refusals` knows why.
std::unique_ptr<Plan> try_candidate(const PlanTarget& target, const Descriptor& config,
                                    const PlanLimits& limits, Refusals& refusals) {
  try {
    std::vector<Descriptor> engine = descriptors(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    auto notes = engine[0].get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    if (std::ranges::find_first_of(notes, limits.without) != notes.end()) {
      ++refusals.notes;
      return nullptr;
    }
    Descriptor plan = execution_plan(target, config);
    const auto bytes =
        static_cast<size_t>(plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1).at(0));
    if (bytes > limits.workspace_bytes) {
      ++refusals.workspace;
      refusals.least_workspace = std::min(refusals.least_workspace, bytes);
      return nullptr;
    }
    const int64_t index = engine[0].get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1).at(0);
    return std::make_unique<Plan>(Plan{std::move(plan), bytes, index, std::move(notes)});
  } catch (const Error& error) {
    if (refusals.failure.empty()) refusals.failure = error.what();
    return nullptr;
  }
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  void* descriptor = nullptr;
  const CudnnLibrary& library = CudnnLibrary::get();
  library.check(library.create_descriptor(type, &descriptor), "making a descriptor");
  descriptor_.reset(descriptor);
}

void Descriptor::Destroy::operator()(void* descriptor) const noexcept {
  CudnnLibrary::get().destroy_descriptor(descriptor);
}

void Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         size_t count, const void* values) {
  const CudnnLibrary& library = CudnnLibrary::get();
  const cudnnStatus_t status =
      library.set_attribute(get(), name, type, static_cast<int64_t>(count), values);
  library.check(status, "setting an attribute of a descriptor");
}

size_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           size_t most, void* values) const {
  const CudnnLibrary& library = CudnnLibrary::get();
  int64_t count = 0;
  const cudnnStatus_t status =
      library.get_attribute(get(), name, type, static_cast<int64_t>(most), &count, values);
  library.check(status, "reading an attribute of a descriptor");
  return std::min(static_cast<size_t>(count), most);
}

void Descriptor::set_descriptors(cudnnBackendAttributeName_t name,
                                 std::span<const Descriptor> values) {
  const std::vector<void*> list = pointers(values);
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, list.size(), list.data());
}

size_t Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                   std::span<Descriptor> parts) const {
  std::vector<void*> list = pointers(parts);
  return get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, list.size(), list.data());
}

void Descriptor::finalize() {
  const CudnnLibrary& library = CudnnLibrary::get();
  library.check(library.finalize(get()), "finalizing a descriptor");
}

Descriptor device_properties(const std::string& json) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(json));
  properties.finalize();
  return properties;
}

Descriptor tensor(const TensorSpec& spec) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set_one(CUDNN_ATTR_TENSOR_UNIQUE_ID, spec.id);
  tensor.set_one(CUDNN_ATTR_TENSOR_DATA_TYPE, spec.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.sizes);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, spec.strides);
  tensor.set_one(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.set_one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, spec.kind == TensorSpec::Kind::kVirtual);
  tensor.finalize();
  return tensor;
}

Plan find_plan(const PlanTarget& target, std::span<const Descriptor> operations,
               const PlanLimits& limits) {
  const Descriptor graph = operation_graph(target, operations);
  Refusals refusals;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> configs;
    try {
      configs = candidates(target, graph, mode);
    } catch (const Error& error) {
      if (refusals.failure.empty()) refusals.failure = error.what();
    }
    for (const Descriptor& config : configs) {
      if (auto plan = try_candidate(target, config, limits, refusals)) return std::move(*plan);
    }
  }
  throw Error("no engine of cuDNN takes it: {}", refusals.sentence(limits.workspace_bytes));
}

}  // namespace sardonyx::ops::cudnn
