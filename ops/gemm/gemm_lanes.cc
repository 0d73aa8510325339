// Products whose batch operands lie in lanes of 16 images: [N,..,K] is stored [N/16][..][K][16].
//
// Each (block of images, position on the inner axes) is a block of the lane kernels. Weight
// gradients add up the valid lanes only; threads work on blocks of images around them, so they run
// on one.
#include <algorithm>

#include "ops/core/lane_shapes.h"
#include "ops/core/refusals.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops::gemm {

namespace {

using lanes::in_lanes;
using lanes::kLanes;
using lanes::WeightOrder;

// Images of an operand [N,..,K] in lanes, in blocks of the lane kernels.
struct Blocks {
  int64_t images = 0;     // N
  int64_t positions = 1;  // product of the axes between N and K
  int64_t count() const { return lanes::blocks_of(images) * positions; }
  int64_t full() const { return images / kLanes * positions; }
  int rest() const { return static_cast<int>(images % kLanes); }

  static Blocks of(const std::vector<int64_t>& shape) {
    Blocks blocks{shape[0], 1};
    for (size_t i = 1; i + 1 < shape.size(); ++i) blocks.positions *= shape[i];
    return blocks;
  }
};

Refusal unless_alpha_one() {
  return {"takes alpha 1 only",
          [](const KernelRequest& request) { return request.node->get_float("alpha", 1) != 1; }};
}

std::vector<Refusal> product_refusals(const char* trans_a) {
  return {unless_float(),
          {"takes a batch times a plain weight only",
           [](const KernelRequest& request) {
             return !in_lanes(request.in[0]) || !in_lanes(request.out[0]) ||
                    in_lanes(request.in[1]);
           }},
          {"takes no transposed batch",
           [trans_a](const KernelRequest& request) {
             return trans_of(*request.node, trans_a) == Trans::kYes;
           }},
          {"takes a weight with two axes only",
           [](const KernelRequest& request) { return request.in[1].rank() != 2; }}};
}

std::vector<Refusal> gemm_refusals() {
  return joined(
      product_refusals("transA"),
      {unless_alpha_one(),
       {"takes c as one value per column with beta 1 only", [](const KernelRequest& request) {
          const GemmShape shape = GemmShape::of(request);
          return shape.reads_c &&
                 (shape.beta != 1 || shape.c_row_stride != 0 || in_lanes(request.in[2]) ||
                  request.in[2].numel() != shape.product.n);
        }}});
}

template <class T>
class ProductKernel final : public Kernel {
 public:
  ProductKernel(const KernelRequest& request, Trans trans_b)
      : blocks_(Blocks::of(request.in_shape(0))),
        m_(static_cast<int>(request.out_shape(0).back())),
        k_(static_cast<int>(request.in_shape(0).back())),
        order_(trans_b == Trans::kYes ? WeightOrder::kRowIsOutput : WeightOrder::kRowIsInput),
        reads_c_(request.has_in(2) && request.node->get_float("beta", 1) != 0) {}

  void run(CpuContext& context) const override {
    parallel_for(*context.pool, blocks_.count(), 1, [&](int64_t begin, int64_t end) {
      const lanes::GemmShape shape{m_, k_, order_, static_cast<int>(end - begin)};
      lanes::lane_kernels<T>().gemm_forward(shape, context.in<T>(0) + begin * k_ * kLanes,
                                            context.in<T>(1), reads_c_ ? context.in<T>(2) : nullptr,
                                            lanes::Activation::kNone,
                                            context.out<T>(0) + begin * m_ * kLanes);
    });
  }

 private:
  Blocks blocks_;
  int m_, k_;
  WeightOrder order_;
  bool reads_c_;
};

template <class T>
class GradWeightKernel final : public Kernel {
 public:
  explicit GradWeightKernel(const KernelRequest& request)
      : blocks_(Blocks::of(request.in_shape(0))),
        p_(static_cast<int>(request.in_shape(0).back())),
        q_(static_cast<int>(request.in_shape(1).back())) {}

  void run(CpuContext& context) const override {
    if (!context.accumulate) std::fill_n(context.out<T>(0), int64_t{p_} * q_, T{0});
    add(context, 0, static_cast<int>(blocks_.full()), static_cast<int>(blocks_.full()) * kLanes);
    if (blocks_.rest() == 0) return;
    for (int64_t i = blocks_.full(); i < blocks_.count(); ++i) add(context, i, 1, blocks_.rest());
  }

 private:
  void add(CpuContext& context, int64_t first, int count, int valid) const {
    if (count == 0) return;
    lanes::lane_kernels<T>().gemm_grad_weight(
        {p_, q_, WeightOrder::kRowIsOutput, count}, context.in<T>(1) + first * q_ * kLanes,
        context.in<T>(0) + first * p_ * kLanes, valid, context.out<T>(0), nullptr);
  }

  Blocks blocks_;
  int p_, q_;
};

template <class T>
void sum_lanes(const Blocks& blocks, int64_t columns, double scale, CpuContext& context) {
  const T* dy = context.in<T>(0);
  T* db = context.out<T>(0);
  for (int64_t j = 0; j < columns; ++j) {
    double sums[kLanes] = {};
    for (int64_t i = 0; i < blocks.full(); ++i) {
      const T* block = dy + (i * columns + j) * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(block[lane]);
    }
    for (int64_t i = blocks.full(); i < blocks.count(); ++i) {
      const T* block = dy + (i * columns + j) * kLanes;
      for (int lane = 0; lane < blocks.rest(); ++lane)
        sums[lane] += static_cast<double>(block[lane]);
    }
    double sum = 0;
    for (double part : sums) sum += part;
    const double start = context.accumulate ? static_cast<double>(db[j]) : 0.0;
    db[j] = static_cast<T>(start + scale * sum);
  }
}

void run_grad_bias(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> shape = request.in_shape(0);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    sum_lanes<T>(Blocks::of(shape), shape.back(), request.node->get_float("scale", 1), context);
  });
}

template <template <class> class K, class... Args>
std::unique_ptr<Kernel> make(const KernelRequest& request, Args... args) {
  if (request.in[0].dtype == DType::kFloat32) return std::make_unique<K<float>>(request, args...);
  return std::make_unique<K<double>>(request, args...);
}

}  // namespace

void add_lanes_kernels(KernelRegistry& kernels) {
  KernelDef def;
  def.name = "gemm.lanes";
  def.speed = Speed::kBest;
  def.layouts = Layouts::kLanes;
  def.op = "Gemm";
  def.declines = gemm_refusals();
  def.create = [](const KernelRequest& request) {
    return make<ProductKernel>(request, trans_of(*request.node, "transB"));
  };
  kernels.add(def);
  def.op = "MatMul";
  def.declines = product_refusals("trans_a");
  def.create = [](const KernelRequest& request) {
    return make<ProductKernel>(request, trans_of(*request.node, "trans_b"));
  };
  kernels.add(def);
  def.domain = kDomain;
  def.accumulates = true;
  def.op = "GemmGradWeight";
  def.declines = {unless_float(),
                  {"takes two batches only",
                   [](const KernelRequest& request) {
                     return !in_lanes(request.in[0]) || !in_lanes(request.in[1]);
                   }},
                  unless_alpha_one()};
  def.create = [](const KernelRequest& request) { return make<GradWeightKernel>(request); };
  kernels.add(def);
  def.op = "GemmGradBias";
  def.declines = {unless_float()};
  def.create = simple_kernel(run_grad_bias);
  kernels.add(def);
}

}  // namespace sardonyx::ops::gemm
