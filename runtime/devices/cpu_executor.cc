#include "runtime/devices/cpu_executor.h"

#include <cstring>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "ops/core/communicator.h"
#include "runtime/devices/omp_shim.h"

namespace sardonyx::runtime {

using passes::Location;
using passes::Region;
using passes::Space;
using passes::Step;

CpuExecutor::CpuExecutor(const passes::Plan& plan, CpuDevice& device)
    : plan_(plan), device_(device), contexts_(device.threads()) {}

void CpuExecutor::run(const RunArguments& arguments) {
  CHECK(arguments.inputs.size() == plan_.inputs.size(), "{} inputs given, the plan has {}",
        arguments.inputs.size(), plan_.inputs.size());
  arguments_ = arguments;
  const ScopedOmpPool omp(&device_.pool());
  for (const Region& region : plan_.regions) {
    if (region.blocked()) {
      run_blocked(region);
    } else {
      run_whole(region);
    }
  }
  copy_states();
}

void CpuExecutor::run_whole(const Region& region) {
  std::vector<const void*> outputs;
  for (const Step& step : region.steps) {
    run_step(step, 0, {0, 0, region.block_rows, device_.arena()});
    if (arguments_.communicator != nullptr) arguments_.communicator->progress(device_.pool());
    if (!observer_) continue;
    outputs.assign(contexts_[0].outputs.begin(), contexts_[0].outputs.end());
    observer_(step, outputs);
  }
}

void CpuExecutor::run_blocked(const Region& region) {
  const int threads = plan_.threads;
  device_.pool().run(threads, [&](int thread) {
    run_blocks(region, thread, region.blocks * thread / threads,
               region.blocks * (thread + 1) / threads);
  });
  add_partials(region);
}

void CpuExecutor::run_blocks(const Region& region, int thread, int64_t begin, int64_t end) {
  const ScopedOmpPool serial(nullptr);
  std::byte* local = local_memory(region, thread);
  for (const passes::Reduction& sum : region.sums) {
    std::memset(local + sum.partial_offset, 0, sum.count * graph::dtype_size(sum.dtype));
  }
  for (int64_t block = begin; block < end; ++block) {
    const bool tail = region.tail_rows > 0 && block == region.blocks - 1;
    const int64_t rows = tail ? region.tail_rows : region.block_rows;
    for (const Step& step : tail ? region.tail_steps : region.steps) {
      run_step(step, thread, {block, block * region.block_rows, rows, local});
    }
  }
}

void CpuExecutor::run_step(const Step& step, int thread, const Block& block) {
  const ScopedSpan span(arguments_.recorder, {arguments_.replica, thread},
                        {Span::What::kStep, block.number, block.rows, &step});
  ops::CpuContext& context = contexts_[thread];
  context.inputs.resize(step.inputs.size());
  context.outputs.resize(step.outputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    context.inputs[i] = address(step.inputs[i], block.number, block.local);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    context.outputs[i] = address(step.outputs[i], block.number, block.local);
  }
  context.workspace = {block.local + step.workspace_offset, step.workspace_bytes};
  context.pool = &device_.pool();
  context.accumulate = step.accumulate;
  context.seed = arguments_.seed;
  context.step = arguments_.step;
  context.first_sample = arguments_.first_sample + block.first_row;
  context.communicator = arguments_.communicator;
  with_context([&] { return "running node " + step.node->label() + " (" + step.def->name + ")"; },
               [&] { step.kernel->run(context); });
}

void CpuExecutor::add_partials(const Region& region) {
  if (region.sums.empty()) return;
  int64_t elements = 0;
  for (const passes::Reduction& sum : region.sums) elements += static_cast<int64_t>(sum.count);
  const ScopedSpan span(
      arguments_.recorder, {arguments_.replica, 0},
      {Span::What::kPartialSums, static_cast<int64_t>(region.sums.size()), elements});
  for (const passes::Reduction& sum : region.sums) {
    ops::dispatch_float(sum.dtype, [&]<class T>() {
      T* target = reinterpret_cast<T*>(address(sum.target, 0, nullptr));
      ops::parallel_for(
          device_.pool(), static_cast<int64_t>(sum.count), 8192, [&](int64_t begin, int64_t end) {
            for (int thread = 0; thread < plan_.threads; ++thread) {
              const T* partial =
                  reinterpret_cast<const T*>(local_memory(region, thread) + sum.partial_offset);
              const bool adds = sum.accumulate || thread > 0;
              for (int64_t i = begin; i < end; ++i) {
                target[i] = adds ? target[i] + partial[i] : partial[i];
              }
            }
          });
    });
  }
}

void CpuExecutor::copy_states() {
  if (plan_.copies.empty()) return;
  int64_t bytes = 0;
  for (const passes::StateCopy& copy : plan_.copies) bytes += static_cast<int64_t>(copy.bytes);
  const ScopedSpan span(
      arguments_.recorder, {arguments_.replica, 0},
      {Span::What::kStateCopies, static_cast<int64_t>(plan_.copies.size()), bytes});
  for (const passes::StateCopy& copy : plan_.copies) {
    copy_bytes(device_.states() + copy.state_offset, address(copy.from, 0, nullptr), copy.bytes);
  }
}

std::byte* CpuExecutor::address(const Location& location, int64_t block, std::byte* local) const {
  const size_t offset = location.offset + static_cast<size_t>(block) * location.block_stride;
  switch (location.space) {
    case Space::kNone:
      return nullptr;
    case Space::kState:
      return device_.states() + offset;
    case Space::kArena:
      return device_.arena() + offset;
    case Space::kLocal:
      return local + offset;
    case Space::kConstant:
      return const_cast<std::byte*>(plan_.constants[location.offset].aligned_data());
    case Space::kInput:
      // Inputs are read-only; operands of kernels are const where they are inputs.
      return static_cast<std::byte*>(const_cast<void*>(arguments_.inputs[location.offset])) +
             static_cast<size_t>(block) * location.block_stride;
  }
  return nullptr;
}

std::byte* CpuExecutor::local_memory(const Region& region, int thread) const {
  return device_.arena() + region.local_offset + static_cast<size_t>(thread) * region.local_bytes;
}

std::vector<graph::Tensor> CpuExecutor::outputs(const std::vector<int>& which) const {
  std::vector<graph::Tensor> tensors;
  for (const int i : which) {
    const passes::PlanOutput& output = plan_.outputs.at(i);
    const auto bytes = tensors.emplace_back(output.type.dtype, output.type.shape()).mutable_bytes();
    copy_bytes(bytes.data(), address(output.location, 0, nullptr), bytes.size());
  }
  return tensors;
}

}  // namespace sardonyx::runtime
