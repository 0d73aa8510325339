// One kernel: it runs while constants are folded, hardly ever in a plan.
#include "ops/core/data_shape.h"
#include "ops/core/refusals.h"
#include "ops/non_max_suppression/non_max_suppression.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

class NmsKernel final : public Kernel {
 public:
  explicit NmsKernel(const KernelRequest& request)
      : request_(request),
        sizes_(nms::Sizes::of(request.in_shape(nms::kBoxes), request.in_shape(nms::kScores))) {}

  // The boxes of a class in order.
  size_t workspace_bytes() const override { return sizes_.boxes * sizeof(int64_t); }

  void run(CpuContext& context) const override {
    const void* inputs[nms::kInputs] = {};
    std::ranges::copy(context.inputs, inputs);
    const std::span<int64_t> order(reinterpret_cast<int64_t*>(context.workspace.data()),
                                   sizes_.boxes);
    const int64_t planned = request_.out_shape(0)[0];
    int64_t found = 0;
    dispatch_float(request_.in[nms::kBoxes].dtype, [&]<class T>() {
      const auto selection = nms::Selection<T>::of(*request_.node, sizes_, inputs);
      selection.run(order, [&](int64_t batch, int64_t c, int64_t box) {
        if (found < planned) {
          std::ranges::copy(std::initializer_list<int64_t>{batch, c, box},
                            context.out<int64_t>(0) + 3 * found);
        }
        ++found;
      });
    });
    require_planned_size(request_, found, planned);
  }

 private:
  KernelRequest request_;
  nms::Sizes sizes_;
};

}  // namespace

void register_non_max_suppression_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "NonMaxSuppression";
  def.name = "non_max_suppression.ref";
  def.declines = {unless_float()};
  def.create = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<NmsKernel>(request);
  };
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
