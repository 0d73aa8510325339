// How an operator is computed: KernelDef describes one implementation, Kernel is it made ready for
// fixed shapes.
//
// Selection is by request: a kernel that can't serve one declines with a sentence (printed by
// `sardonyx ops`); the reference kernel `ROOM.ref` declines nothing its operator allows. Kernels
// own no memory that grows with the batch: workspace is asked for up front and handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/op.h"
#include "ops/core/parallel.h"
#include "ops/core/product_math.h"

namespace sardonyx::ops {

class Communicator;
class CudaContext;
struct CudaLibraries;

enum class Device : uint8_t { kCpu, kCuda };

// What a kernel will be run with. Types are those of the run: inside a region the batch is the
// block, so always ask these and never node->input(i)->type. All dimensions are known.
struct KernelRequest {
  const Node* node = nullptr;
  std::vector<TensorType> in;            // dtype kUndefined for inputs left out
  std::vector<TensorType> out;           // likewise
  std::vector<const Tensor*> constants;  // bytes of constant inputs, else nullptr
  // Of the device that the kernel is made for (ops/core/cuda_context.h); null: it is the CPU.
  CudaLibraries* libraries = nullptr;
  ProductMath math = ProductMath::kFloat32;

  bool has_in(int i) const {
    return i < static_cast<int>(in.size()) && in[i].dtype != DType::kUndefined;
  }
  bool has_out(int i) const {
    return i < static_cast<int>(out.size()) && out[i].dtype != DType::kUndefined;
  }
  const Tensor* constant(int i) const {
    return i < static_cast<int>(constants.size()) ? constants[i] : nullptr;
  }
  // Integers of a constant input. CHECK: it is constant.
  std::vector<int64_t> ints(int i) const;
  std::vector<int64_t> in_shape(int i) const { return in[i].shape(); }
  std::vector<int64_t> out_shape(int i) const { return out[i].shape(); }
  // The request of a node as it stands in its graph (whole batch). CHECK: all types are static.
  static KernelRequest of(const Node& node);
};

// What every run of a kernel gets, on whatever device.
class RunContext {
 public:
  std::vector<const void*> inputs;  // nullptr: left out
  std::vector<void*> outputs;       // nullptr: not wanted
  // Output 0 must be added to what it holds (only set for kernels that declare `accumulates`). This
  // is how OpDef::accumulate_input reaches a kernel: that input itself is never handed in.
  bool accumulate = false;
  // Key of counter-based generators: (seed, step, index in the global batch of row 0 of this call).
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sample = 0;

  template <class T>
  const T* in(int i) const {
    return i < static_cast<int>(inputs.size()) ? static_cast<const T*>(inputs[i]) : nullptr;
  }
  template <class T>
  T* out(int i) const {
    return i < static_cast<int>(outputs.size()) ? static_cast<T*>(outputs[i]) : nullptr;
  }
};

class CpuContext : public RunContext {
 public:
  std::span<std::byte> workspace;  // at least Kernel::workspace_bytes(), 64-byte aligned
  ThreadPool* pool = nullptr;
  Communicator* communicator = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace_bytes() const { return 0; }
  // Of CudaContext::host_memory, where a launch needs some.
  virtual size_t host_bytes() const { return 0; }
  // Each is called from several threads at once with different contexts: no mutable members. A
  // kernel has the one for the device of its KernelDef; the other throws InternalError.
  virtual void run(CpuContext& context) const;
  // Enqueues the work and doesn't wait for it (ops/core/cuda_context.h).
  virtual void launch(CudaContext& context) const;
};

// Which layouts a kernel takes. Values that don't carry the batch (weights, scalars) are always
// plain.
enum class Layouts : uint8_t {
  kPlain,    // all operands plain
  kSameAll,  // element by element over the stored bytes: any layout, all operands of equal shape
             // and layout (padding lanes are computed too: any garbage is allowed there)
  kLanes,    // every batch-carrying operand has Layout::lanes(16); the rest is plain
  kChannelsLast,    // every batch-carrying operand with spatial axes has Layout::channels_last; the
                    // rest is plain
  kChannelsFollow,  // likewise, but it wants them so only where the first one is
  kAny,             // the kernel looks at the layouts itself (Reorder)
};

// Preference among kernels that accept: higher first.
enum class Speed : uint8_t { kReference = 0, kPlain = 10, kOptimised = 20, kBest = 30 };

// How a sum of products is rounded: as a sum, or in another basis (Winograd), a few times more.
enum class Rounding : uint8_t { kSum, kTransformed };

// kCannot: the kernel can't serve the request. kSlow: it could, but the static cost table expects
// another one to be faster; measurements (--tune) may find otherwise.
enum class RefusalKind : uint8_t { kCannot, kSlow };

// A reason not to serve a request. `applies` may take for granted that none of the refusals before
// it in its list does.
struct Refusal {
  std::string sentence;  // what the kernel takes, needs or knows
  std::function<bool(const KernelRequest&)> applies;
  RefusalKind kind = RefusalKind::kCannot;
  // Where a library decides: what it said of a request that is refused. Null: none does.
  std::function<std::string(const KernelRequest&)> library_words = {};
};

struct KernelDef {
  std::string domain, op;
  std::string name;  // "conv.ref", "conv.onednn", "conv.lanes"; unique together with op
  Device device = Device::kCpu;
  Speed speed = Speed::kReference;
  Layouts layouts = Layouts::kPlain;
  Rounding rounding = Rounding::kSum;
  // Honours CpuContext::accumulate for output 0.
  bool accumulates = false;
  // (output, input) pairs that may share memory: an element is read before it is written.
  std::vector<std::pair<int, int>> in_place;
  // Expected speed of a kLanes kernel relative to the best plain one (static cost table); null: 1.
  // A region is blocked into lanes where some node gains.
  std::function<double(const KernelRequest&)> lanes_gain;
  // Beside the general rule (layouts of the operands); the first that applies is the reason.
  std::vector<Refusal> declines;
  std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create;
};

// A kernel made from one function, for the many that need no preparation. The kernel keeps a copy
// of the request.
using KernelFunction = std::function<void(const KernelRequest&, CpuContext&)>;
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> simple_kernel(KernelFunction function);

// Calls f.template operator()<T>() for the float type; throws InternalError for others.
template <class F>
void dispatch_float(DType dtype, F&& f) {
  if (dtype == DType::kFloat32) {
    f.template operator()<float>();
  } else if (dtype == DType::kFloat64) {
    f.template operator()<double>();
  } else {
    throw InternalError("no kernel instance for " + std::string(graph::dtype_name(dtype)));
  }
}
// For kernels that only move bytes: T is an unsigned type of the element's size.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (graph::dtype_size(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      throw InternalError("no kernel instance for " + std::string(graph::dtype_name(dtype)));
  }
}

// The kernels of one device.
class KernelRegistry {
 public:
  // Made when it is first asked for, so that a run on the CPU doesn't wait for those of CUDA.
  static const KernelRegistry& get(Device device = Device::kCpu);
  // Adds a kernel at run time, after those of the rooms. Before any plan is made: plans point into
  // the registry.
  static void extend(KernelDef kernel);
  void add(KernelDef kernel);
  // All kernels of an operator, fastest first; registration order among equals.
  std::vector<const KernelDef*> find(std::string_view domain, std::string_view op) const;
  std::vector<const KernelDef*> all() const;

 private:
  std::map<std::pair<std::string, std::string>, std::vector<KernelDef>, std::less<>> kernels_;
};

// The sentence of the first refusal that applies, the layouts of the operands first. nullopt: the
// kernel accepts.
std::optional<std::string> declines(const KernelDef& kernel, const KernelRequest& request);
// Whether the kernel could run this, fast or not: only refusals of kind kCannot count.
bool can_serve(const KernelDef& kernel, const KernelRequest& request);
// What a library said, where it is one that makes the kernel decline; else "".
std::string library_words(const KernelDef& kernel, const KernelRequest& request);
// Every sentence with which `declines` may answer, in its order.
std::vector<std::string> decline_sentences(const KernelDef& kernel);

// Runs `node` once on constant tensors, reference kernel, one thread: constant folding, tests.
// Inputs left out are undefined tensors. View operators are handled too. Throws Error when no CPU
// kernel accepts.
std::vector<Tensor> evaluate(const Node& node, const std::vector<Tensor>& inputs);

}  // namespace sardonyx::ops
