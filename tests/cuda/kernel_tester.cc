#include "tests/cuda/kernel_tester.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "graph/support/bytes.h"
#include "ops/core/cuda_context.h"
#include "tests/cuda/on_device.h"
#include "tests/cuda/run_kernel.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace cuda = ops::cuda;

namespace {

constexpr size_t kGuard = 256;  // also the alignment of the arena
constexpr std::byte kGuardByte{0xa5};
// As float and double a NaN, as an integer a large number: an element that is never written shows.
constexpr std::byte kGarbage{0xff};

// Views may begin at any element.
enum class Begin : uint8_t { kAligned, kOffPack };

// Device memory with guard bytes, and its copy on the host.
class Buffer {
 public:
  Buffer(size_t size, size_t shift)
      : size_(size),
        begin_(kGuard + shift),
        device_(begin_ + size + kGuard),
        host_(staging(device_.size())) {
    std::memset(host_.get(), static_cast<int>(kGuardByte), device_.size());
    std::memset(bytes(), static_cast<int>(kGarbage), size_);
  }
  std::byte* bytes() const { return host_.get() + begin_; }
  std::byte* device() const { return device_.data() + begin_; }
  size_t size() const { return size_; }
  void upload(cuda::Stream stream) const {
    cuda::copy_to_device(stream, device_.data(), host_.get(), device_.size());
  }
  void download(cuda::Stream stream) const {
    cuda::copy_to_host(stream, host_.get(), device_.data(), device_.size());
  }
  bool intact() const {
    for (size_t i = 0; i < device_.size(); ++i) {
      const bool guard = i < begin_ || i >= begin_ + size_;
      if (guard && host_.get()[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  size_t size_, begin_;
  cuda::Memory device_;
  std::shared_ptr<std::byte> host_;
};

struct Options {
  Begin begin = Begin::kAligned;
  std::vector<std::pair<int, int>> shared = {};  // (output, input) pairs in one buffer
  Tensor start = {};                             // defined: output 0 is added to these numbers
};

// Operands as the kernel finds them in memory.
Tensor stored_as(const ops::TensorType& type, const Tensor& plain) {
  return type.layout.plain() ? plain : to_order(plain, type.layout.order);
}

// Libraries want operands at 16 bytes, where a plan has them all.
bool of_a_library(const ops::KernelDef& kernel) {
  return kernel.name.find(".cudnn") != std::string::npos || kernel.name.ends_with(".cublas");
}

// What a result may be off: a tolerance, and a share of the largest number that was stored on the
// way.
struct Allowed {
  Tolerance tolerance;
  double of_largest = 0;

  Tolerance around(std::initializer_list<Tensor> stored) const {
    double largest = 0;
    for (const Tensor& tensor : stored) {
      if (!tensor.defined()) continue;
      for (const double number : tensor.to_doubles()) {
        if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
      }
    }
    return {tolerance.rtol, tolerance.atol + of_largest * largest};
  }
};

// Products of bfloat16 may be stored before a bias, a third operand or an accumulator is added.
Allowed allowed_for(const ops::KernelDef& kernel, const ops::KernelRequest& request,
                    Tolerance tolerance) {
  if (request.math == ops::ProductMath::kTf32) return {{0x1p-10, 0}, 0x1p-10};
  const bool product = kernel.name.starts_with("conv.") || kernel.name.starts_with("gemm.");
  const bool narrow = !request.in.empty() && request.in[0].dtype == DType::kBFloat16;
  return {tolerance, product && narrow ? 0x1p-8 : 0};
}

// One kernel on one request.
class Trial {
 public:
  Trial(const ops::KernelDef& kernel, const ops::KernelRequest& request,
        const std::vector<Tensor>& inputs, const std::vector<Tensor>& want, Tolerance tolerance)
      : kernel_(kernel),
        request_(request),
        want_(want),
        allowed_(allowed_for(kernel, request, tolerance)),
        made_(kernel.create(request)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool there = request.has_in(static_cast<int>(i));
      inputs_.push_back(there ? stored_as(request.in[i], inputs[i]) : Tensor());
    }
  }

  std::vector<std::string> faults() {
    const std::vector<Tensor> once = run("alone", {}, want_);
    const std::vector<Tensor> again = run("again", {}, want_);
    for (size_t i = 0; i < once.size(); ++i) {
      if (once[i].defined() && !once[i].identical(again[i])) {
        faults_.push_back(fmt::format("output {} differs from run to run", i));
      }
    }
    if (!of_a_library(kernel_)) run("off a pack", {.begin = Begin::kOffPack}, want_);
    for (const auto& pair : kernel_.in_place) {
      if (!same_size(pair)) continue;
      run(fmt::format("output {} in place of input {}", pair.first, pair.second),
          {.shared = {pair}}, want_);
    }
    auto aliases = ops::aliases_of(*request_.node);
    std::erase_if(aliases, [&](const auto& pair) { return !same_size(pair); });
    if (!aliases.empty()) run("aliased", {.shared = aliases}, want_);
    if (kernel_.accumulates) {
      const Tensor start = start_numbers(request_.out[0]);
      std::vector<Tensor> want = want_;
      want[0] = sum_of(want[0], start);
      run("accumulating", {.start = start}, want);
    }
    return std::move(faults_);
  }

 private:
  bool same_size(std::pair<int, int> pair) const {
    return request_.has_out(pair.first) && request_.has_in(pair.second) &&
           request_.out[pair.first].bytes() == request_.in[pair.second].bytes();
  }

  std::vector<Tensor> run(const std::string& how, const Options& options,
                          const std::vector<Tensor>& want) {
    const size_t before = faults_.size();
    const std::vector<Tensor> got = run_once(options);
    for (size_t i = 0; i < want.size(); ++i) {
      if (!want[i].defined() || !got[i].defined()) continue;
      if (const auto d = difference(got[i], want[i], allowed_.around({want[i], options.start}))) {
        faults_.push_back(fmt::format("output {} {}", i, *d));
      }
    }
    for (size_t i = before; i < faults_.size(); ++i) faults_[i] = how + ": " + faults_[i];
    return got;
  }

  std::unique_ptr<Buffer> buffer(const ops::TensorType& type, Begin begin) const {
    const size_t shift = begin == Begin::kOffPack ? graph::dtype_size(type.dtype) : 0;
    return std::make_unique<Buffer>(type.bytes(), shift);
  }

  std::vector<Tensor> run_once(const Options& options) {
    const cuda::OwnedStream stream;
    ops::CudaContext context;
    context.stream = stream.get();
    context.libraries = &libraries();
    context.accumulate = options.start.defined();
    std::vector<std::shared_ptr<Buffer>> in(request_.in.size()), out(request_.out.size());
    for (size_t i = 0; i < in.size(); ++i) {
      context.inputs.push_back(nullptr);
      if (!request_.has_in(static_cast<int>(i))) continue;
      in[i] = buffer(request_.in[i], options.begin);
      copy_bytes(in[i]->bytes(), inputs_[i].bytes().data(), in[i]->size());
      in[i]->upload(stream.get());
      context.inputs[i] = in[i]->device();
    }
    for (size_t i = 0; i < out.size(); ++i) {
      context.outputs.push_back(nullptr);
      if (!request_.has_out(static_cast<int>(i))) continue;
      out[i] = shared_input(options, static_cast<int>(i), in);
      if (out[i] == nullptr) {
        out[i] = buffer(request_.out[i], options.begin);
        if (i == 0 && options.start.defined()) {
          const Tensor start = stored_as(request_.out[i], options.start);
          copy_bytes(out[i]->bytes(), start.bytes().data(), out[i]->size());
        }
        out[i]->upload(stream.get());
      }
      context.outputs[i] = out[i]->device();
    }
    const Buffer workspace(made_->workspace_bytes(), 0);
    workspace.upload(stream.get());
    context.workspace = workspace.device();
    try {
      made_->launch(context);
    } catch (...) {
      cuda::synchronize(stream.get());  // the copies, before their memory goes
      throw;
    }
    workspace.download(stream.get());
    for (const auto* buffers : {&in, &out}) {
      for (const auto& each : *buffers) {
        if (each != nullptr) each->download(stream.get());
      }
    }
    cuda::synchronize(stream.get());
    if (!workspace.intact()) faults_.push_back("writes past its workspace");
    return results(in, out);
  }

  static std::shared_ptr<Buffer> shared_input(const Options& options, int output,
                                              const std::vector<std::shared_ptr<Buffer>>& in) {
    for (const auto& [to, from] : options.shared) {
      if (to == output) return in[from];
    }
    return nullptr;
  }

  std::vector<Tensor> results(const std::vector<std::shared_ptr<Buffer>>& in,
                              const std::vector<std::shared_ptr<Buffer>>& out) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) continue;
      if (!in[i]->intact()) faults_.push_back(fmt::format("writes around input {}", i));
      const bool shared = std::find(out.begin(), out.end(), in[i]) != out.end();
      if (!shared && in[i]->size() > 0 &&
          std::memcmp(in[i]->bytes(), inputs_[i].bytes().data(), in[i]->size()) != 0) {
        faults_.push_back(fmt::format("changes input {}", i));
      }
    }
    std::vector<Tensor> tensors(out.size());
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] == nullptr) continue;
      if (!out[i]->intact()) faults_.push_back(fmt::format("writes around output {}", i));
      tensors[i] = Tensor(request_.out[i].dtype, request_.out[i].shape());
      copy_bytes(tensors[i].mutable_bytes().data(), out[i]->bytes(), out[i]->size());
      const graph::Layout& layout = request_.out[i].layout;
      if (!layout.plain()) tensors[i] = from_order(tensors[i], layout.order);
    }
    return tensors;
  }

  const ops::KernelDef& kernel_;
  const ops::KernelRequest& request_;
  std::vector<Tensor> inputs_;
  const std::vector<Tensor>& want_;
  Allowed allowed_;
  std::unique_ptr<ops::Kernel> made_;
  std::vector<std::string> faults_;
};

// Those of the node that take its types.
class Kernels {
 public:
  explicit Kernels(const ops::Node& node) : node_(node), request_(ops::KernelRequest::of(node)) {
    request_.libraries = &libraries();
  }
  ops::KernelRequest& request() { return request_; }
  // Whether anything can lie so.
  bool put_channels_last() {
    bool any = false;
    const auto lay = [&](std::vector<ops::TensorType>& types,
                         const std::vector<ops::Value*>& values) {
      for (size_t i = 0; i < types.size(); ++i) {
        if (types[i].rank() < 3 || !ops::carries_batch(node_, values[i])) continue;
        types[i].layout = graph::Layout::channels_last(types[i].rank());
        any = true;
      }
    };
    lay(request_.in, node_.inputs());
    lay(request_.out, node_.outputs());
    return any;
  }

  std::vector<std::string> faults(const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& want, Tolerance tolerance,
                                  std::set<std::string>& ran) const {
    std::vector<std::string> faults;
    const auto try_kernel = [&](const ops::KernelDef& kernel, const ops::KernelRequest& request,
                                const char* manner) {
      const auto add = [&](const std::string& fault) {
        faults.push_back(fmt::format(
            "{} of {} {}{}: {}", kernel.name, node_.op,
            request.in.empty() ? request.out[0].str() : request.in[0].str(), manner, fault));
      };
      try {
        Trial trial(kernel, request, inputs, want, tolerance);
        for (const std::string& fault : trial.faults()) add(fault);
      } catch (const std::exception& error) {
        add(fmt::format("throws {}", error.what()));
        recover();
      }
    };
    for (const ops::KernelDef* kernel : found()) {
      if (ops::declines(*kernel, request_)) continue;
      ran.insert(kernel->name);
      try_kernel(*kernel, request_, "");
      if (!of_a_library(*kernel) || request_.in.at(0).dtype != DType::kFloat32) continue;
      ops::KernelRequest tf32 = request_;
      tf32.math = ops::ProductMath::kTf32;
      try_kernel(*kernel, tf32, " as TF32");
    }
    return faults;
  }

  bool any_takes() const {
    const auto all = found();
    return std::any_of(all.begin(), all.end(), [&](const ops::KernelDef* kernel) {
      return !ops::declines(*kernel, request_);
    });
  }
  std::vector<const ops::KernelDef*> found() const {
    return ops::KernelRegistry::get(ops::Device::kCuda).find(node_.domain, node_.op);
  }

 private:
  const ops::Node& node_;
  ops::KernelRequest request_;
};

enum class Channels : uint8_t { kFirst, kLast };

struct Run {
  DType dtype = DType::kFloat32;
  int64_t rows = -1;  // as given
  Channels channels = Channels::kFirst;
};

// The numbers of the run, for the CPU's reference kernel.
std::vector<Tensor> in_double(const OpCase& c, std::vector<Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool follows = inputs[i].defined() && !c.inputs[i].keep_dtype;
    if (follows && graph::is_floating(inputs[i].dtype()))
      inputs[i] = inputs[i].cast(DType::kFloat64);
  }
  return inputs;
}

std::vector<std::string> forward_faults(const OpCase& c, const Run& run,
                                        std::set<std::string>& ran) {
  OpGraph g = build(c, input_values(c, run.dtype, run.rows));
  OpGraph exact = build(c, in_double(c, g.inputs));
  Kernels kernels(*g.node);
  if (run.channels == Channels::kLast && !kernels.put_channels_last()) return {};
  leave_accumulator_out(*g.node, g.inputs, kernels.request());
  ops::KernelRequest of_exact = ops::KernelRequest::of(*exact.node);
  leave_accumulator_out(*exact.node, exact.inputs, of_exact);
  const std::vector<Tensor> want = ops::evaluate(*exact.node, exact.inputs);
  std::vector<std::string> faults =
      kernels.faults(g.inputs, want, tolerance_for(c, run.dtype), ran);
  for (std::string& fault : faults) {
    if (run.rows >= 0) fault += fmt::format(" (with {} rows)", run.rows);
  }
  return faults;
}

// In bfloat16 where kernels take it, as they must where the operator follows (OpDef::narrow): its
// own and those of its gradient. Products, whose sums are rounded on the way, are tried by
// products_test.cc.
enum class Narrow : uint8_t { kMust, kMay, kNot };

Narrow narrow_of(const std::string& domain, const std::string& op) {
  const ops::OpDef& def = *ops::OpRegistry::get().find(domain, op);
  if (def.narrow == ops::Narrow::kFollows) return Narrow::kMust;
  return def.narrow == ops::Narrow::kNo && domain.empty() ? Narrow::kMay : Narrow::kNot;
}

std::vector<std::string> narrow_faults(const OpCase& c, Narrow narrow, bool in_float,
                                       std::set<std::string>& ran) {
  std::set<std::string> took;
  std::vector<std::string> faults;
  if (narrow == Narrow::kNot) return {};
  const std::vector<Tensor> inputs = input_values(c, DType::kBFloat16, -1);
  // What kernels take is said of operand 0.
  if (inputs.empty() || !inputs[0].defined() || inputs[0].dtype() != DType::kBFloat16) return {};
  try {
    faults = forward_faults(c, {.dtype = DType::kBFloat16}, took);
  } catch (const Error& error) {
    if (narrow == Narrow::kMust) faults.push_back(fmt::format("in bfloat16: {}", error.what()));
    return faults;
  }
  if (narrow == Narrow::kMust && in_float && took.empty()) {
    faults.push_back(fmt::format("no CUDA kernel of {} takes bfloat16", c.op));
  }
  ran.insert(took.begin(), took.end());
  if (c.batch) {
    const Run run = {.dtype = DType::kBFloat16, .channels = Channels::kLast};
    for (std::string& fault : forward_faults(c, run, ran)) faults.push_back(std::move(fault));
  }
  return faults;
}

// A node that a gradient rule wrote, as a case.
OpCase case_of(const OpCase& c, const ops::Node& node, const std::vector<Tensor>& inputs) {
  OpCase result = {.claim = c.claim,
                   .domain = node.domain,
                   .op = node.op,
                   .attributes = node.attributes,
                   .num_outputs = node.num_outputs(),
                   .float_tolerance = c.float_tolerance,
                   .narrow_tolerance = c.narrow_tolerance,
                   .batch = c.batch};
  for (int i = 0; i < node.num_inputs(); ++i) {
    const ops::Value* value = node.input(i);
    if (value == nullptr) {
      result.inputs.push_back(left_out());
    } else if (value->is_constant()) {
      result.inputs.push_back(constant(inputs[i]));
    } else if (c.batch && !ops::carries_batch(node, value)) {
      result.inputs.push_back(parameter(given(inputs[i])));
    } else {
      result.inputs.push_back(given(inputs[i]));
    }
  }
  for (const ops::Value* value : node.outputs()) {
    result.wanted_outputs.push_back(value != nullptr);
  }
  return result;
}

std::vector<std::string> faults_of_gradient_cases(const OpCase& c) {
  std::vector<std::string> faults;
  const auto add = [&](const std::vector<std::string>& more) {
    faults.insert(faults.end(), more.begin(), more.end());
  };
  for_gradient_nodes(
      c, DType::kFloat64,
      [&](const ops::Node& node, const std::vector<Tensor>& inputs, const std::vector<Tensor>&) {
        const OpCase of_node = case_of(c, node, inputs);
        std::set<std::string> ran;
        if (c.batch) add(forward_faults(of_node, {.channels = Channels::kLast}, ran));
        ran.clear();
        const Narrow narrow = narrow_of(c.domain, c.op) == Narrow::kMust
                                  ? Narrow::kMust
                                  : narrow_of(node.domain, node.op);
        const OpGraph g = build(of_node, input_values(of_node, DType::kFloat32, -1));
        const bool in_float = Kernels(*g.node).any_takes();
        add(narrow_faults(of_node, narrow, in_float, ran));
      });
  return faults;
}

std::vector<std::string> gradient_node_faults(const OpCase& c, DType dtype) {
  std::vector<std::string> faults;
  for_gradient_nodes(
      c, dtype,
      [&](const ops::Node& node, const std::vector<Tensor>& inputs,
          const std::vector<Tensor>& outputs) {
        Kernels kernels(node);
        std::vector<Tensor> operands = inputs;
        leave_accumulator_out(node, operands, kernels.request());
        std::set<std::string> ran;
        for (std::string& fault : kernels.faults(operands, outputs, tolerance_for(c, dtype), ran)) {
          faults.push_back(std::move(fault));
        }
      });
  return faults;
}

std::vector<std::string> cuda_faults(const OpCase& c, std::set<std::string>& ran) {
  std::vector<std::string> faults;
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& fault : more) faults.push_back(c.claim + ": " + fault);
  };
  try {
    add(expected_faults(c));
    std::set<std::string> of_double;
    add(forward_faults(c, {.dtype = DType::kFloat64}, of_double));
    add(forward_faults(c, {}, ran));
    add(narrow_faults(c, narrow_of(c.domain, c.op), !ran.empty(), ran));
    if (c.batch) add(forward_faults(c, {.channels = Channels::kLast}, ran));
    if (c.batch && !c.fixed_rows) {
      add(forward_faults(c, {.rows = kOtherRows}, ran));
      if (c.empty_batch) {
        add(forward_faults(c, {.rows = 0}, ran));
        add(forward_faults(c, {.rows = 0, .channels = Channels::kLast}, ran));
      }
    }
    add(gradient_node_faults(c, DType::kFloat32));
    add(gradient_node_faults(c, DType::kFloat64));
    add(faults_of_gradient_cases(c));
  } catch (const std::exception& error) {
    add({error.what()});
  }
  return faults;
}

std::vector<std::string> faults_of_some(const OpCase& c) {
  std::set<std::string> ran;
  return cuda_faults(c, ran);
}

// Before any test: check_op of this executable tries CUDA kernels.
[[maybe_unused]] const bool cuda_is_tried = (other_faults = faults_of_some) != nullptr;

}  // namespace

void check_cuda(const OpCase& c) {
  std::set<std::string> ran;
  for (const std::string& fault : cuda_faults(c, ran)) ADD_FAILURE() << fault;
  EXPECT_FALSE(ran.empty()) << c.claim << ": no CUDA kernel of " << c.op << " takes it";
  for (const std::string& name : c.must_run) {
    EXPECT_TRUE(ran.contains(name)) << c.claim << ": kernel " << name << " never ran";
  }
}

std::string cuda_refusal(const OpCase& c, const std::string& name) {
  const OpGraph g = build(c, input_values(c, DType::kFloat32, -1));
  Kernels kernels(*g.node);
  for (const ops::KernelDef* kernel : kernels.found()) {
    if (kernel->name == name) return ops::declines(*kernel, kernels.request()).value_or("");
  }
  return fmt::format("there is no CUDA kernel {} of {}", name, c.op);
}

}  // namespace sardonyx::test
