#include "runtime/devices/cuda_executor.h"

#include <algorithm>
#include <tuple>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "passes/arena.h"
#include "runtime/devices/omp_shim.h"

namespace sardonyx::runtime {

namespace cuda = ops::cuda;
using passes::Location;
using passes::Space;
using passes::Step;

namespace {

// Of each input and constant in device memory, as cuda::allocate aligns them.
size_t aligned(size_t bytes) { return passes::align_up(bytes, passes::kDeviceAlignment); }

}  // namespace

CudaExecutor::CudaExecutor(const passes::Plan& plan, CudaDevice& device)
    : plan_(plan), device_(device) {
  for (const passes::Region& region : plan_.regions) {
    CHECK(!region.blocked(), "a plan with blocks of rows was loaded on {}", device_.name());
  }
  for (const passes::PlanInput& input : plan_.inputs) {
    input_offsets_.push_back(input_bytes_);
    input_bytes_ += aligned(input.type.bytes());
  }
  for (Feed& feed : feeds_) {
    feed.host = cuda::PinnedMemory(input_bytes_);
    feed.device = cuda::Memory(input_bytes_);
  }
  size_t host_bytes = 0;
  for (const passes::Region& region : plan_.regions) {
    for (const Step& step : region.steps) {
      host_bytes = std::max(host_bytes, step.kernel->host_bytes());
    }
  }
  device_.reserve_host(host_bytes);
  find_checked_inputs();
  context_.stream = device_.compute();
  context_.wait = [this] { device_.synchronize(); };
  context_.libraries = device_.libraries();
  load_constants();
}

CudaExecutor::~CudaExecutor() {
  // Nothing may be freed under the device's hands.
  try {
    device_.enter();
    cuda::synchronize(copies_.get());
    device_.synchronize();
  } catch (const std::exception&) {
    // The device is lost; who asks it next is told.
  }
}

size_t CudaExecutor::device_bytes(const passes::Plan& plan) {
  size_t inputs = 0, constants = 0;
  for (const passes::PlanInput& input : plan.inputs) inputs += aligned(input.type.bytes());
  for (const graph::Tensor& constant : plan.constants)
    constants += aligned(constant.bytes().size());
  return std::tuple_size_v<decltype(feeds_)> * inputs + constants;
}

void CudaExecutor::find_checked_inputs() {
  for (const passes::Region& region : plan_.regions) {
    for (const Step& step : region.steps) {
      const ops::ValueCheck& check = ops::OpRegistry::get().at(*step.node).value_check;
      if (check.input < 0) continue;
      const Location& from = step.inputs.at(static_cast<size_t>(check.input));
      if (from.space != Space::kInput) continue;
      checked_.push_back({from.offset, step.node, ops::KernelRequest::of(*step.node)});
    }
  }
}

void CudaExecutor::load_constants() {
  size_t bytes = 0;
  for (const graph::Tensor& constant : plan_.constants) {
    constant_offsets_.push_back(bytes);
    bytes += aligned(constant.bytes().size());
  }
  constants_ = cuda::Memory(bytes);
  for (size_t i = 0; i < plan_.constants.size(); ++i) {
    const auto from = plan_.constants[i].bytes();
    device_.upload(constants_.data() + constant_offsets_[i], from.data(), from.size());
  }
}

void CudaExecutor::run(const RunArguments& arguments) {
  CHECK(arguments.inputs.size() == plan_.inputs.size(), "{} inputs given, the plan has {}",
        arguments.inputs.size(), plan_.inputs.size());
  check_inputs(arguments);
  device_.enter();
  const ScopedOmpPool omp(device_.host_pool());
  feed_run(arguments);
  context_.host_memory = device_.host_memory();
  context_.host_pool = device_.host_pool();
  context_.seed = arguments.seed;
  context_.step = arguments.step;
  context_.first_sample = arguments.first_sample;
  context_.communicator = arguments.device_communicator;
  for (const passes::Region& region : plan_.regions) {
    for (const Step& step : region.steps) run_step(step, arguments);
  }
  copy_states();
  Feed& feed = feeds_[feed_];
  cuda::record(feed.read.get(), device_.compute());
  feed.busy = feed.read.get();
}

void CudaExecutor::check_inputs(const RunArguments& arguments) const {
  for (const Checked& checked : checked_) {
    with_context([&] { return "running node " + checked.node->label(); },
                 [&] {
                   ops::OpRegistry::get()
                       .at(*checked.node)
                       .value_check.check(checked.request, arguments.inputs[checked.input],
                                          arguments.first_sample);
                 });
  }
}

// Never waits: what is under way may depend on other ranks, whose failure would be told here.
void CudaExecutor::stage(const RunArguments& arguments) {
  device_.enter();
  staged_ = 0;
  Feed& feed = next_feed();
  if (feed.busy != nullptr && !cuda::done(feed.busy)) return;
  fill(feed, arguments);
  staged_ = arguments.staged;
}

void CudaExecutor::feed_run(const RunArguments& arguments) {
  const bool is_there = arguments.staged != 0 && arguments.staged == staged_;
  staged_ = 0;
  Feed& feed = next_feed();
  if (!is_there) {
    if (feed.busy != nullptr) device_.synchronize(feed.busy);
    fill(feed, arguments);
  }
  feed_ = (feed_ + 1) % feeds_.size();
  if (input_bytes_ > 0) cuda::wait(device_.compute(), feed.copied.get());
}

void CudaExecutor::fill(Feed& feed, const RunArguments& arguments) {
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    copy_bytes(feed.host.data() + input_offsets_[i], arguments.inputs[i],
               plan_.inputs[i].type.bytes());
  }
  if (input_bytes_ == 0) return;
  cuda::copy_to_device(copies_.get(), feed.device.data(), feed.host.data(), input_bytes_);
  cuda::record(feed.copied.get(), copies_.get());
  feed.busy = feed.copied.get();
}

void CudaExecutor::run_step(const Step& step, const RunArguments& arguments) {
  const ScopedSpan span(arguments.recorder, {arguments.replica, 0},
                        {Span::What::kStep, 0, plan_.batch, &step});
  context_.inputs.resize(step.inputs.size());
  context_.outputs.resize(step.outputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) context_.inputs[i] = address(step.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i) context_.outputs[i] = address(step.outputs[i]);
  context_.workspace = device_.arena() + step.workspace_offset;
  context_.accumulate = step.accumulate;
  with_context([&] { return "launching node " + step.node->label() + " (" + step.def->name + ")"; },
               [&] {
                 step.kernel->launch(context_);
                 // A recorder wants the time of this step, an observer its values.
                 if (arguments.recorder != nullptr) device_.synchronize();
               });
  if (observer_) observe(step);
}

void CudaExecutor::observe(const Step& step) {
  std::vector<std::vector<std::byte>> copies(step.outputs.size());
  std::vector<const void*> outputs(step.outputs.size(), nullptr);
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (context_.outputs[i] == nullptr) continue;
    copies[i].resize(step.output_types[i].bytes());
    device_.download(copies[i].data(), context_.outputs[i], copies[i].size());
    outputs[i] = copies[i].data();
  }
  observer_(step, outputs);
}

void CudaExecutor::copy_states() {
  for (const passes::StateCopy& copy : plan_.copies) {
    if (copy.bytes == 0) continue;
    cuda::copy_on_device(device_.compute(), device_.states() + copy.state_offset,
                         address(copy.from), copy.bytes);
  }
}

std::byte* CudaExecutor::address(const Location& location) const {
  switch (location.space) {
    case Space::kNone:
      return nullptr;
    case Space::kState:
      return device_.states() + location.offset;
    case Space::kArena:
      return device_.arena() + location.offset;
    case Space::kConstant:
      return constants_.data() + constant_offsets_[location.offset];
    case Space::kInput:
      return feeds_[feed_].device.data() + input_offsets_[location.offset];
    case Space::kLocal:
      break;
  }
  throw InternalError("a plan for CUDA has local memory");
}

std::vector<graph::Tensor> CudaExecutor::outputs(const std::vector<int>& which) const {
  std::vector<graph::Tensor> tensors;
  std::vector<CudaDevice::Download> downloads;
  for (const int i : which) {
    const passes::PlanOutput& output = plan_.outputs.at(i);
    const auto bytes = tensors.emplace_back(output.type.dtype, output.type.shape()).mutable_bytes();
    downloads.push_back({bytes.data(), address(output.location), bytes.size()});
  }
  device_.download(downloads);
  return tensors;
}

}  // namespace sardonyx::runtime
