// Kernels. Masks come from ops/core/random: dropout.ref asks element by element, dropout.vector and
// dropout.lanes by chunks of 64 elements of a sample (of 16 samples); all give the same mask.
#include <algorithm>

#include "graph/support/bytes.h"
#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/random.h"
#include "ops/core/refusals.h"
#include "ops/dropout/drop.h"
#include "ops/dropout/dropout.h"

namespace sardonyx::ops {

namespace {

using dropout::Drop;
using dropout::Loops;
using dropout::scale_of;

template <class T>
const Loops<T>& loops() {
  static const Loops<T>& best = best_copy(dropout::baseline::loops<T>(), dropout::avx2::loops<T>(),
                                          dropout::avx512::loops<T>());
  return best;
}

// --- The file's form

void run_identity(const KernelRequest& request, CpuContext& context) {
  const size_t bytes = request.in[0].bytes();
  if (context.outputs[0] != nullptr && context.outputs[0] != context.inputs[0] && bytes > 0) {
    copy_bytes(context.outputs[0], context.inputs[0], bytes);
  }
  if (!request.has_out(1)) return;
  const int64_t n = request.out[1].physical_numel();
  if (request.out[1].dtype == DType::kBool) {
    std::fill_n(context.out<bool>(1), n, true);
  } else {
    dispatch_float(request.out[1].dtype,
                   [&]<class T>() { std::fill_n(context.out<T>(1), n, T{1}); });
  }
}

// --- The training form

template <class T>
void run_plain(const Drop& drop, uint64_t stream, CpuContext& context) {
  const T* x = context.in<T>(0);
  T* y = context.out<T>(0);
  uint8_t* mask = context.out<uint8_t>(1);
  const T scale = static_cast<T>(scale_of(drop.ratio));
  for (int64_t row = 0; row < drop.rows; ++row) {
    for (int64_t e = 0; e < drop.elements; ++e) {
      const int64_t i = row * drop.elements + e;
      const bool keep = random_bits(stream, context.first_sample + row, e) >= drop.threshold();
      y[i] = keep ? x[i] * scale : T{0};
      if (mask != nullptr) mask[i] = keep ? 1 : 0;
    }
  }
}

// One piece of contiguous elements whose bits are known.
template <class T>
void drop_piece(const Drop& drop, const uint32_t* bits, int64_t at, int64_t n,
                CpuContext& context) {
  uint8_t scratch[kRandomChunk * kRandomLanes];
  uint8_t* mask = context.out<uint8_t>(1) != nullptr ? context.out<uint8_t>(1) + at : scratch;
  T* y = context.out<T>(0) + at;
  if (drop.threshold() > UINT32_MAX) {
    std::fill_n(y, n, T{0});
    std::fill_n(mask, n, uint8_t{0});
    return;
  }
  loops<T>().drop(bits, static_cast<uint32_t>(drop.threshold()), context.in<T>(0) + at,
                  static_cast<T>(scale_of(drop.ratio)), n, y, mask);
}

template <class T>
void run_vector(const Drop& drop, uint64_t stream, CpuContext& context) {
  const int64_t chunks = drop.chunks();
  parallel_for(*context.pool, drop.rows * chunks, 1 + kMathGrain / kRandomChunk,
               [&](int64_t begin, int64_t end) {
                 uint32_t bits[kRandomChunk];
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t row = i / chunks, chunk = i % chunks;
                   random_chunk(stream, context.first_sample + row, chunk, bits);
                   drop_piece<T>(drop, bits, row * drop.elements + chunk * kRandomChunk,
                                 drop.chunk_size(chunk), context);
                 }
               });
}

template <class T>
void run_lanes(const Drop& drop, uint64_t stream, CpuContext& context) {
  const int64_t chunks = drop.chunks();
  const int64_t blocks = (drop.rows + kRandomLanes - 1) / kRandomLanes;
  parallel_for(*context.pool, blocks * chunks, 2, [&](int64_t begin, int64_t end) {
    uint32_t bits[kRandomChunk * kRandomLanes];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i / chunks, chunk = i % chunks;
      random_chunk_of_lanes(stream, context.first_sample + block * kRandomLanes, chunk, bits);
      drop_piece<T>(drop, bits, (block * drop.elements + chunk * kRandomChunk) * kRandomLanes,
                    drop.chunk_size(chunk) * kRandomLanes, context);
    }
  });
}

enum class How : uint8_t { kPlain, kVector, kLanes };

template <How kHow>
class DropKernel final : public Kernel {
 public:
  explicit DropKernel(const KernelRequest& request) : drop_(request), dtype_(request.in[0].dtype) {}

  void run(CpuContext& context) const override {
    const uint64_t stream = stream_key(context.seed, context.step, drop_.key);
    dispatch_float(dtype_, [&]<class T>() {
      if constexpr (kHow == How::kPlain) run_plain<T>(drop_, stream, context);
      if constexpr (kHow == How::kVector) run_vector<T>(drop_, stream, context);
      if constexpr (kHow == How::kLanes) run_lanes<T>(drop_, stream, context);
    });
  }

 private:
  Drop drop_;
  DType dtype_;
};

template <How kHow>
std::unique_ptr<Kernel> make_drop(const KernelRequest& request) {
  return std::make_unique<DropKernel<kHow>>(request);
}

// --- Gradient

void run_gradient_plain(const KernelRequest& request, CpuContext& context) {
  const double scale = scale_of(request.node->get_float("ratio", 0.5));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    for (int64_t i = 0; i < request.in[0].physical_numel(); ++i) {
      context.out<T>(0)[i] =
          context.in<uint8_t>(1)[i] != 0 ? context.in<T>(0)[i] * static_cast<T>(scale) : T{0};
    }
  });
}

void run_gradient(const KernelRequest& request, CpuContext& context) {
  const double scale = scale_of(request.node->get_float("ratio", 0.5));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    parallel_for(*context.pool, request.in[0].physical_numel(), kCheapGrain,
                 [&](int64_t begin, int64_t end) {
                   loops<T>().gradient(context.in<T>(0) + begin, context.in<uint8_t>(1) + begin,
                                       static_cast<T>(scale), end - begin,
                                       context.out<T>(0) + begin);
                 });
  });
}

KernelDef define(const char* domain, const char* op, const char* name, Speed speed,
                 Layouts layouts) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name;
  def.speed = speed;
  def.layouts = layouts;
  def.in_place = {{0, 0}};
  def.declines = {unless_float()};
  return def;
}

}  // namespace

void register_dropout_cpu(KernelRegistry& kernels) {
  KernelDef def = define("", "Dropout", "dropout.ref", Speed::kReference, Layouts::kPlain);
  def.declines.clear();
  def.create = simple_kernel(run_identity);
  kernels.add(def);
  def.name = "dropout.stored";
  def.speed = Speed::kPlain;
  def.layouts = Layouts::kSameAll;
  kernels.add(def);

  def = define(kDomain, "Dropout", "dropout.ref", Speed::kReference, Layouts::kPlain);
  def.create = make_drop<How::kPlain>;
  kernels.add(def);
  def.name = "dropout.vector";
  def.speed = Speed::kOptimised;
  def.create = make_drop<How::kVector>;
  kernels.add(def);
  def.name = "dropout.lanes";
  def.layouts = Layouts::kLanes;
  def.declines = {unless_float(), unless_equal_layouts()};
  def.create = make_drop<How::kLanes>;
  kernels.add(def);

  def = define(kDomain, "DropoutGrad", "dropout.ref", Speed::kReference, Layouts::kSameAll);
  def.create = simple_kernel(run_gradient_plain);
  kernels.add(def);
  def.name = "dropout.vector";
  def.speed = Speed::kOptimised;
  def.create = simple_kernel(run_gradient);
  kernels.add(def);
}

}  // namespace sardonyx::ops
