// One kernel: it runs while constants are folded, hardly ever in a plan.
#include "ops/core/data_shape.h"
#include "ops/core/dispatch.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"
#include "ops/unique/unique.h"

namespace sardonyx::ops {

namespace {

using unique::Items;

class UniqueKernel final : public Kernel {
 public:
  explicit UniqueKernel(const KernelRequest& request)
      : request_(request),
        lines_(unique::items_of(*request.node, request.in_shape(0))),
        planned_(unique::items_of(*request.node, request.out_shape(0)).length) {}

  // The order of the items, and where its groups start.
  size_t workspace_bytes() const override { return 2 * lines_.length * sizeof(int64_t); }

  void run(CpuContext& context) const override {
    auto* numbers = reinterpret_cast<int64_t*>(context.workspace.data());
    const std::span<int64_t> order(numbers, lines_.length);
    const std::span<int64_t> starts(numbers + lines_.length, lines_.length);
    dispatch_element(request_.in[0].dtype, [&]<class T>() {
      const Items<T> items(context.in<T>(0), lines_);
      const int64_t groups = unique::group(items, unique::sorted_of(*request_.node), order, starts);
      require_planned_size(request_, groups, planned_);
      write<T>(context, order, starts.first(groups), items);
    });
  }

 private:
  template <class T>
  void write(CpuContext& context, std::span<const int64_t> order, std::span<const int64_t> starts,
             const Items<T>& items) const {
    const auto groups = static_cast<int64_t>(starts.size());
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = order[starts[g]];
      copy_item(context.in<T>(0), first, context.out<T>(0), g, groups);
      if (int64_t* indices = context.out<int64_t>(1)) indices[g] = first;
      size_t i = starts[g];
      for (; i < order.size() && items.compare(first, order[i]) == 0; ++i) {
        if (int64_t* inverse = context.out<int64_t>(2)) inverse[order[i]] = g;
      }
      if (int64_t* counts = context.out<int64_t>(3)) {
        counts[g] = static_cast<int64_t>(i) - starts[g];
      }
    }
  }

  template <class T>
  void copy_item(const T* x, int64_t from, T* y, int64_t to, int64_t groups) const {
    for (int64_t o = 0; o < lines_.outer; ++o) {
      std::copy_n(x + (o * lines_.length + from) * lines_.inner, lines_.inner,
                  y + (o * groups + to) * lines_.inner);
    }
  }

  KernelRequest request_;
  Lines lines_;
  int64_t planned_ = 0;
};

}  // namespace

void register_unique_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "Unique";
  def.name = "unique.ref";
  def.declines = {unless_elements()};
  def.create = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<UniqueKernel>(request);
  };
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
