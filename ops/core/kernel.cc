#include "ops/core/kernel.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace sardonyx::ops {

namespace {

class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(KernelFunction function, KernelRequest request)
      : function_(std::move(function)), request_(std::move(request)) {}
  void run(CpuContext& context) const override { function_(request_, context); }

 private:
  KernelFunction function_;
  KernelRequest request_;
};

const char* layouts_sentence(Layouts layouts) {
  switch (layouts) {
    case Layouts::kPlain:
      return "takes plain layouts only";
    case Layouts::kSameAll:
      return "takes operands of equal shape and layout only";
    case Layouts::kLanes:
      return "takes batch operands in lanes of 16 images only";
    case Layouts::kChannelsLast:
    case Layouts::kChannelsFollow:
      return "takes batch operands with channels last only";
    case Layouts::kAny:
      break;
  }
  return "";
}

// The layout that `layouts` wants of some operand, where others are plain.
bool has_wanted_layout(Layouts layouts, const TensorType& type) {
  if (layouts == Layouts::kLanes) return type.layout.lane_count() == 16;
  return type.layout.channels_last() &&
         (layouts == Layouts::kChannelsLast || layouts == Layouts::kChannelsFollow);
}

bool same_all(const std::vector<const TensorType*>& types) {
  return std::all_of(types.begin(), types.end(), [&](const TensorType* type) {
    return type->layout == types[0]->layout && type->shape() == types[0]->shape();
  });
}

bool layouts_fit(const KernelDef& kernel, const KernelRequest& request) {
  if (kernel.layouts == Layouts::kAny) return true;
  std::vector<const TensorType*> types;
  for (const auto* operands : {&request.in, &request.out}) {
    for (const TensorType& type : *operands) {
      if (type.dtype != DType::kUndefined) types.push_back(&type);
    }
  }
  if (kernel.layouts == Layouts::kSameAll) return same_all(types);
  bool any_wanted = false;
  for (const TensorType* type : types) {
    const bool wanted = has_wanted_layout(kernel.layouts, *type);
    if (!wanted && !type->layout.plain()) return false;
    any_wanted = any_wanted || wanted;
  }
  return kernel.layouts == Layouts::kPlain || any_wanted;
}

}  // namespace

void Kernel::run(CpuContext&) const {
  throw InternalError("a kernel of another device was run on the CPU");
}

void Kernel::launch(CudaContext&) const {
  throw InternalError("a kernel of the CPU was launched on a CUDA device");
}

std::vector<int64_t> KernelRequest::ints(int i) const {
  CHECK(constant(i) != nullptr, "input {} of {} is not constant", i, node->label());
  return constant(i)->to_ints();
}

KernelRequest KernelRequest::of(const Node& node) {
  KernelRequest request;
  request.node = &node;
  for (const Value* value : node.inputs()) {
    request.in.push_back(value == nullptr ? TensorType() : value->type);
    request.constants.push_back(value != nullptr && value->is_constant() ? &value->data : nullptr);
  }
  for (const Value* value : node.outputs()) {
    request.out.push_back(value == nullptr ? TensorType() : value->type);
  }
  return request;
}

std::function<std::unique_ptr<Kernel>(const KernelRequest&)> simple_kernel(
    KernelFunction function) {
  return [function = std::move(function)](const KernelRequest& request) {
    return std::make_unique<FunctionKernel>(function, request);
  };
}

void KernelRegistry::add(KernelDef kernel) {
  CHECK(!kernel.name.empty() && kernel.create != nullptr, "kernel of {} needs name and create",
        kernel.op);
  for (const Refusal& refusal : kernel.declines) {
    CHECK(!refusal.sentence.empty() && refusal.applies != nullptr,
          "kernel {} of {} declines without a sentence", kernel.name, kernel.op);
  }
  auto& list = kernels_[{kernel.domain, kernel.op}];
  for (const KernelDef& other : list) {
    CHECK(other.name != kernel.name, "kernel {} of {} is registered twice", kernel.name, kernel.op);
  }
  list.push_back(std::move(kernel));
  std::stable_sort(list.begin(), list.end(), [](const KernelDef& a, const KernelDef& b) {
    return static_cast<int>(a.speed) > static_cast<int>(b.speed);
  });
}

std::vector<const KernelDef*> KernelRegistry::find(std::string_view domain,
                                                   std::string_view op) const {
  std::vector<const KernelDef*> result;
  const auto it = kernels_.find(std::make_pair(std::string(domain), std::string(op)));
  if (it == kernels_.end()) return result;
  for (const KernelDef& kernel : it->second) result.push_back(&kernel);
  return result;
}

std::vector<const KernelDef*> KernelRegistry::all() const {
  std::vector<const KernelDef*> result;
  for (const auto& [key, list] : kernels_) {
    for (const KernelDef& kernel : list) result.push_back(&kernel);
  }
  return result;
}

namespace {

const Refusal* first_refusal(const KernelDef& kernel, const KernelRequest& request) {
  const auto it = std::ranges::find_if(
      kernel.declines, [&](const Refusal& refusal) { return refusal.applies(request); });
  return it == kernel.declines.end() ? nullptr : &*it;
}

}  // namespace

std::optional<std::string> declines(const KernelDef& kernel, const KernelRequest& request) {
  if (!layouts_fit(kernel, request)) return layouts_sentence(kernel.layouts);
  const Refusal* refusal = first_refusal(kernel, request);
  return refusal == nullptr ? std::nullopt : std::optional(refusal->sentence);
}

std::string library_words(const KernelDef& kernel, const KernelRequest& request) {
  if (!layouts_fit(kernel, request)) return "";
  const Refusal* refusal = first_refusal(kernel, request);
  const bool has_words = refusal != nullptr && refusal->library_words != nullptr;
  return has_words ? refusal->library_words(request) : "";
}

bool can_serve(const KernelDef& kernel, const KernelRequest& request) {
  return layouts_fit(kernel, request) &&
         std::none_of(kernel.declines.begin(), kernel.declines.end(), [&](const Refusal& refusal) {
           return refusal.kind == RefusalKind::kCannot && refusal.applies(request);
         });
}

std::vector<std::string> decline_sentences(const KernelDef& kernel) {
  std::vector<std::string> sentences;
  if (kernel.layouts != Layouts::kAny) sentences.emplace_back(layouts_sentence(kernel.layouts));
  for (const Refusal& refusal : kernel.declines) sentences.push_back(refusal.sentence);
  return sentences;
}

namespace {

// F(x, dy, acc) = acc + F(x, dy).
std::vector<Tensor> evaluate_accumulating(const Node& node, int slot, std::vector<Tensor> inputs) {
  const Tensor acc = std::exchange(inputs[slot], Tensor());
  std::vector<Tensor> outputs = evaluate(node, inputs);
  dispatch_float(acc.dtype(), [&]<class T>() {
    const auto from = acc.data<T>();
    const auto to = outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  });
  return outputs;
}

Tensor viewed(const OpDef& op, const Node& node, const Tensor& x) {
  const TensorType& type = node.output(0)->type;
  if (!op.view_begin) return x.reshaped(type.shape());
  Tensor part(type.dtype, type.shape());
  const size_t begin = static_cast<size_t>(op.view_begin(node)) * graph::dtype_size(type.dtype);
  std::ranges::copy(x.bytes().subspan(begin, type.bytes()), part.mutable_bytes().begin());
  return part;
}

}  // namespace

std::vector<Tensor> evaluate(const Node& node, const std::vector<Tensor>& inputs) {
  const OpDef& op = OpRegistry::get().at(node);
  KernelRequest request = KernelRequest::of(node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) request.constants[i] = &inputs[i];
  }
  if (op.accumulate_input >= 0 && static_cast<size_t>(op.accumulate_input) < inputs.size() &&
      inputs[op.accumulate_input].defined()) {
    return evaluate_accumulating(node, op.accumulate_input, inputs);
  }
  if (op.literal) return {op.literal(node)};
  if (op.view) return {viewed(op, node, inputs.at(0))};

  const auto kernels = KernelRegistry::get().find(node.domain, node.op);
  for (auto it = kernels.rbegin(); it != kernels.rend(); ++it) {  // the reference comes last
    if (declines(**it, request)) continue;
    CpuContext context;
    SerialPool pool;
    context.pool = &pool;
    std::vector<Tensor> outputs;
    for (const Value* value : node.outputs()) {
      outputs.push_back(value == nullptr ? Tensor()
                                         : Tensor(value->type.dtype, value->type.shape()));
    }
    for (const Tensor& tensor : inputs) {
      context.inputs.push_back(tensor.defined() ? tensor.aligned_data() : nullptr);
    }
    for (Tensor& tensor : outputs) {
      context.outputs.push_back(tensor.defined() ? tensor.mutable_bytes().data() : nullptr);
    }
    const std::unique_ptr<Kernel> kernel = (*it)->create(request);
    // Tensor memory is aligned for vectors.
    Tensor workspace(DType::kUint8, {static_cast<int64_t>(kernel->workspace_bytes())});
    context.workspace = workspace.mutable_bytes();
    kernel->run(context);
    return outputs;
  }
  throw Error("node {}: no CPU kernel of {} takes these types", node.label(),
              op_label(node.domain, node.op));
}

}  // namespace sardonyx::ops
