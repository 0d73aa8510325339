#include "runtime/devices/cpu_executor.h"

#include <chrono>
#include <cstring>

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
  for (const passes::StateCopy& copy : plan_.copies) {
    std::memcpy(device_.states() + copy.state_offset, address(copy.from, 0, nullptr), copy.bytes);
  }
}

void CpuExecutor::run_whole(const Region& region) {
  std::vector<const void*> outputs;
  for (const Step& step : region.steps) {
    run_timed(step, contexts_[0], 0, 0, device_.arena());
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
    const int64_t first_row = block * region.block_rows;
    for (const Step& step : tail ? region.tail_steps : region.steps) {
      run_timed(step, contexts_[thread], block, first_row, local);
    }
  }
}

void CpuExecutor::run_timed(const Step& step, ops::CpuContext& context, int64_t block,
                            int64_t first_row, std::byte* local) {
  if (measured_.empty()) return run_step(step, context, block, first_row, local);
  const auto start = std::chrono::steady_clock::now();
  run_step(step, context, block, first_row, local);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Measured& measured = measured_[&context - contexts_.data()][&step];
  measured.seconds += took.count();
  ++measured.runs;
}

void CpuExecutor::set_timing(Timing timing) {
  measured_.clear();
  if (timing == Timing::kOn) measured_.resize(contexts_.size());
}

std::vector<StepTime> CpuExecutor::times() const {
  std::vector<StepTime> times;
  for (const Region& region : plan_.regions) {
    const double threads = region.blocked() ? plan_.threads : 1;
    for (size_t i = 0; i < region.steps.size(); ++i) {
      StepTime time{&region.steps[i]};
      const auto add = [&](const Step& step) {
        for (const auto& of_thread : measured_) {
          const auto it = of_thread.find(&step);
          if (it == of_thread.end()) continue;
          time.seconds += it->second.seconds / threads;
          time.flops += step.flops * static_cast<double>(it->second.runs);
        }
      };
      add(region.steps[i]);
      if (i < region.tail_steps.size()) add(region.tail_steps[i]);
      times.push_back(time);
    }
  }
  return times;
}

void CpuExecutor::run_step(const Step& step, ops::CpuContext& context, int64_t block,
                           int64_t first_row, std::byte* local) {
  context.inputs.resize(step.inputs.size());
  context.outputs.resize(step.outputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    context.inputs[i] = address(step.inputs[i], block, local);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    context.outputs[i] = address(step.outputs[i], block, local);
  }
  context.workspace = {local + step.workspace_offset, step.workspace_bytes};
  context.pool = &device_.pool();
  context.accumulate = step.accumulate;
  context.seed = arguments_.seed;
  context.step = arguments_.step;
  context.first_sample = arguments_.first_sample + first_row;
  context.communicator = arguments_.communicator;
  with_context([&] { return "running node " + step.node->label() + " (" + step.def->name + ")"; },
               [&] { step.kernel->run(context); });
}

void CpuExecutor::add_partials(const Region& region) {
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

graph::Tensor CpuExecutor::output(int i) const {
  const passes::PlanOutput& output = plan_.outputs.at(i);
  graph::Tensor tensor(output.type.dtype, output.type.shape());
  const auto bytes = tensor.mutable_bytes();
  if (!bytes.empty()) std::memcpy(bytes.data(), address(output.location, 0, nullptr), bytes.size());
  return tensor;
}

}  // namespace sardonyx::runtime
