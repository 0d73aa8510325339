// CUDA kernels of Concat and Split, plain and with channels last: one strided copy per part. A part
// has at most two axes when its neighbours are merged.
#include "ops/concat_split/concat_split.h"

#include <algorithm>

#include "ops/core/cuda_strided.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

enum class Direction : uint8_t { kConcat, kSplit };

class PartsKernel final : public Kernel {
 public:
  PartsKernel(Direction direction, const KernelRequest& request) : direction_(direction) {
    const bool concat = direction == Direction::kConcat;
    for (const PartCopy& part : concat ? concat_copies(request) : split_copies(request)) {
      parts_.push_back({part.operand, {part.box, request.in[0].dtype}});
    }
  }
  void launch(CudaContext& context) const override {
    for (const Part& part : parts_) {
      if (direction_ == Direction::kConcat) {
        part.copy.launch(context.stream, context.inputs[part.operand], context.outputs[0]);
      } else {
        part.copy.launch(context.stream, context.inputs[0], context.outputs[part.operand]);
      }
    }
  }

 private:
  struct Part {
    int operand;
    cuda::DeviceCopy copy;
  };
  Direction direction_;
  std::vector<Part> parts_;
};

// (The sizes of parts have one axis.)
Refusal unless_parts_are_alike() {
  return {"takes parts in the layout of the whole only", [](const KernelRequest& request) {
            const TensorType& first = request.in[0];
            const auto differs = [&](const TensorType& type) {
              return type.rank() == first.rank() && !(type.layout == first.layout);
            };
            return std::any_of(request.in.begin(), request.in.end(), differs) ||
                   std::any_of(request.out.begin(), request.out.end(), differs);
          }};
}

void add(KernelRegistry& kernels, const char* op, const char* name, Direction direction) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = {unless_sized()};
  def.create = [direction](const KernelRequest& request) {
    return std::make_unique<PartsKernel>(direction, request);
  };
  kernels.add(def);
  def.name += "_nhwc";
  def.layouts = Layouts::kChannelsFollow;
  def.declines.push_back(unless_parts_are_alike());
  kernels.add(std::move(def));
}

}  // namespace

void register_concat_split_cuda(KernelRegistry& kernels) {
  add(kernels, "Concat", "concat.cuda", Direction::kConcat);
  add(kernels, "Split", "split.cuda", Direction::kSplit);
}

}  // namespace sardonyx::ops
