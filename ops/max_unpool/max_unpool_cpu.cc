// Every thread owns a part of y and goes through all indices in their order: the last x for a cell
// is y, whatever the number of threads.
#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"
#include "ops/max_unpool/max_unpool.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using max_unpool::UnpoolGeometry;

// write(i, at) for every x, last ones last; `fill` prepares cells [begin, end) of y.
template <class Fill, class Write>
void spread(ThreadPool& pool, const UnpoolGeometry& g, const int64_t* indices, int64_t count,
            int64_t cells, Fill fill, Write write) {
  parallel_for(pool, cells, kCheapGrain, [&](int64_t begin, int64_t end) {
    fill(begin, end);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = g.place(indices[i], i);
      if (at >= begin && at < end) write(i, at);
    }
  });
}

class UnpoolKernel final : public Kernel {
 public:
  explicit UnpoolKernel(const KernelRequest& r)
      : geometry_(*r.node, r.in[1], r.out[0]),
        dtype_(r.out[0].dtype),
        count_(r.in[1].numel()),
        cells_(r.out[0].numel()) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      const T* x = context.in<T>(0);
      T* y = context.out<T>(0);
      spread(
          *context.pool, geometry_, context.in<int64_t>(1), count_, cells_,
          [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, T{0}); },
          [&](int64_t i, int64_t at) { y[at] = x[i]; });
    });
  }

 private:
  UnpoolGeometry geometry_;
  DType dtype_;
  int64_t count_, cells_;
};

class UnpoolGradKernel final : public Kernel {
 public:
  explicit UnpoolGradKernel(const KernelRequest& r)
      : geometry_(*r.node, r.in[1], r.in[0]),
        dtype_(r.out[0].dtype),
        count_(r.in[1].numel()),
        cells_(r.in[0].numel()) {}

  // Per cell of y the x that it has.
  size_t workspace_bytes() const override { return cells_ * sizeof(int64_t); }

  void run(CpuContext& context) const override {
    auto* winner = reinterpret_cast<int64_t*>(context.workspace.data());
    const auto* indices = context.in<int64_t>(1);
    spread(
        *context.pool, geometry_, indices, count_, cells_, [](int64_t, int64_t) {},
        [&](int64_t i, int64_t at) { winner[at] = i; });
    dispatch_float(dtype_, [&]<class T>() {
      const T* dy = context.in<T>(0);
      T* dx = context.out<T>(0);
      parallel_for(*context.pool, count_, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = geometry_.place(indices[i], i);
          dx[i] = winner[at] == i ? dy[at] : T{0};
        }
      });
    });
  }

 private:
  UnpoolGeometry geometry_;
  DType dtype_;
  int64_t count_, cells_;
};

template <class K>
KernelDef reference(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "max_unpool.ref";
  def.declines = {unless_float()};
  def.create = [](const KernelRequest& request) { return std::make_unique<K>(request); };
  return def;
}

}  // namespace

void register_max_unpool_cpu(KernelRegistry& kernels) {
  kernels.add(reference<UnpoolKernel>("", "MaxUnpool"));
  kernels.add(reference<UnpoolGradKernel>(kDomain, "MaxUnpoolGrad"));
}

}  // namespace sardonyx::ops
