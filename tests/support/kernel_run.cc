#include "tests/support/kernel_run.h"

#include <cstring>
#include <memory>
#include <new>

#include "tests/support/tensors.h"
#include "tests/support/test_pool.h"

namespace sardonyx::test {

namespace {

constexpr size_t kGuard = 64;  // also the alignment of the arena
constexpr std::byte kGuardByte{0xa5};
// As float and double a NaN, as an integer a large number: an element that is never written shows.
constexpr std::byte kGarbage{0xff};

class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t size)
      : size_(size),
        total_((size + 2 * kGuard + kGuard - 1) / kGuard * kGuard),
        memory_(static_cast<std::byte*>(::operator new (total_, std::align_val_t{kGuard}))) {
    std::memset(memory_.get(), static_cast<int>(kGuardByte), total_);
    std::memset(data(), static_cast<int>(kGarbage), size_);
  }
  std::byte* data() { return memory_.get() + kGuard; }
  size_t size() const { return size_; }
  bool intact() const {
    for (size_t i = 0; i < total_; ++i) {
      const bool guard = i < kGuard || i >= kGuard + size_;
      if (guard && memory_.get()[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kGuard}); }
  };
  size_t size_, total_;
  std::unique_ptr<std::byte, Free> memory_;
};

Tensor stored_form(const Tensor& plain, const ops::TensorType& type) {
  const int64_t lanes = type.layout.lane_count();
  return lanes > 0 ? to_lanes(plain, lanes) : plain;
}

Tensor plain_form(GuardedBuffer& buffer, const ops::TensorType& type) {
  Tensor stored(type.dtype, {type.physical_numel()});
  if (buffer.size() > 0) {
    std::memcpy(stored.mutable_bytes().data(), buffer.data(), buffer.size());
  }
  const int64_t lanes = type.layout.lane_count();
  return lanes > 0 ? from_lanes(stored, type.shape(), lanes) : stored.reshaped(type.shape());
}

std::optional<int> shared_input(const RunOptions& options, int output) {
  for (const auto& [out, in] : options.shared) {
    if (out == output) return in;
  }
  return std::nullopt;
}

bool is_shared(const RunOptions& options, int input) {
  for (const auto& [out, in] : options.shared) {
    if (in == input) return true;
  }
  return false;
}

void load(GuardedBuffer& buffer, const Tensor& stored) {
  CHECK(stored.bytes().size() == buffer.size(), "{} bytes for a buffer of {}",
        stored.bytes().size(), buffer.size());
  if (buffer.size() > 0) std::memcpy(buffer.data(), stored.bytes().data(), buffer.size());
}

}  // namespace

RunResult run_kernel(const ops::KernelDef& kernel, const ops::KernelRequest& request,
                     const std::vector<Tensor>& inputs, const RunOptions& options) {
  RunResult result;
  std::vector<std::unique_ptr<GuardedBuffer>> in, out;
  std::vector<Tensor> stored;
  ops::CpuContext context;
  for (size_t i = 0; i < request.in.size(); ++i) {
    const bool given = request.has_in(static_cast<int>(i));
    stored.push_back(given ? stored_form(inputs[i], request.in[i]) : Tensor());
    in.push_back(given ? std::make_unique<GuardedBuffer>(request.in[i].bytes()) : nullptr);
    if (given) load(*in.back(), stored.back());
    context.inputs.push_back(given ? in.back()->data() : nullptr);
  }
  for (size_t i = 0; i < request.out.size(); ++i) {
    const bool wanted = request.has_out(static_cast<int>(i));
    const std::optional<int> partner = shared_input(options, static_cast<int>(i));
    const bool own = wanted && !partner;
    out.push_back(own ? std::make_unique<GuardedBuffer>(request.out[i].bytes()) : nullptr);
    if (own && i == 0 && options.start.defined()) {
      load(*out.back(), stored_form(options.start, request.out[0]));
    }
    context.outputs.push_back(!wanted   ? nullptr
                              : partner ? in[*partner]->data()
                                        : out.back()->data());
  }
  TestPool pool(options.threads);
  context.pool = &pool;
  context.accumulate = options.start.defined();
  const std::unique_ptr<ops::Kernel> made = kernel.create(request);
  GuardedBuffer workspace(made->workspace_bytes());
  context.workspace = {workspace.data(), workspace.size()};
  made->run(context);

  if (!workspace.intact()) result.faults.push_back("writes past its workspace");
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) continue;
    if (!in[i]->intact()) result.faults.push_back(fmt::format("writes around input {}", i));
    if (!is_shared(options, static_cast<int>(i)) && in[i]->size() > 0 &&
        std::memcmp(in[i]->data(), stored[i].bytes().data(), in[i]->size()) != 0) {
      result.faults.push_back(fmt::format("changes input {}", i));
    }
  }
  for (size_t i = 0; i < request.out.size(); ++i) {
    if (!request.has_out(static_cast<int>(i))) {
      result.outputs.emplace_back();
      continue;
    }
    const std::optional<int> partner = shared_input(options, static_cast<int>(i));
    GuardedBuffer& buffer = partner ? *in[*partner] : *out[i];
    if (!buffer.intact()) result.faults.push_back(fmt::format("writes around output {}", i));
    result.outputs.push_back(plain_form(buffer, request.out[i]));
  }
  return result;
}

}  // namespace sardonyx::test
