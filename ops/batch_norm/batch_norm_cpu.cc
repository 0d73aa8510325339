// Kernels: batch_norm.ref in plain loops; batch_norm.vector and batch_norm.lanes on the loops of
// batch_norm_isa.cc, which see the same thing in both layouts: rows of planes, one per channel.
//
// What belongs to a channel is worked out in double. A mean that float can't hold is subtracted in
// two parts, so a large mean costs no digits.
#include "ops/batch_norm/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/batch_norm/geometry.h"
#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using batch_norm::Activation;
using batch_norm::Affine;
using batch_norm::Backward;
using batch_norm::Extent;
using batch_norm::Incoming;
using batch_norm::Loops;
using batch_norm::Planes;
using batch_norm::planes_of;

enum class How : uint8_t { kReference, kVector };

// Of the numbers of a channel: the reference computes in double throughout.
template <class T, How how>
using Number = std::conditional_t<how == How::kReference, double, T>;

template <class T>
const Loops<T>& loops() {
  static const Loops<T>& best =
      best_copy(batch_norm::baseline::loops<T>(), batch_norm::avx2::loops<T>(),
                batch_norm::avx512::loops<T>());
  return best;
}

double read(const CpuContext& context, const KernelRequest& request, int input, int64_t i) {
  return request.in[input].dtype == DType::kFloat64
             ? context.in<double>(input)[i]
             : static_cast<double>(context.in<float>(input)[i]);
}

double epsilon_of(const KernelRequest& request) { return request.node->get_float("epsilon", 1e-5); }

double inverse_deviation(double var, double epsilon) { return 1 / std::sqrt(var + epsilon); }

// Slots of what an affine is made of.
struct AffineSlots {
  int scale, bias, mean, var;
};

// 3 numbers per channel at `to`.
template <class P>
Affine<P> affine_of(const KernelRequest& request, const CpuContext& context, AffineSlots slots,
                    int64_t channels, P* to) {
  P *mean = to, *a = mean + channels, *b = a + channels;
  const double epsilon = epsilon_of(request);
  for (int64_t c = 0; c < channels; ++c) {
    const double exact = read(context, request, slots.mean, c);
    const double factor = read(context, request, slots.scale, c) *
                          inverse_deviation(read(context, request, slots.var, c), epsilon);
    mean[c] = static_cast<P>(exact);
    a[c] = static_cast<P>(factor);
    b[c] = static_cast<P>(read(context, request, slots.bias, c) -
                          (exact - static_cast<double>(mean[c])) * factor);
  }
  return {mean, a, b};
}

// What an affine makes of x, as it is stored.
template <class T, class P>
T stored(const Affine<P>& f, int64_t c, T x) {
  return static_cast<T>((x - f.mean[c]) * f.a[c] + f.b[c]);
}

// The incoming gradient of one element, element by element: as Incoming says, but with an affine of
// numbers of another type.
template <class T, class P>
T gradient_at(const Incoming<T>& g, const Affine<P>& affine, const T* x, int64_t at, int64_t c) {
  const T d = g.second == nullptr ? g.dy[at] : g.dy[at] + g.second[at];
  if (g.y != nullptr) return g.y[at] <= T{0} ? T{0} : d;
  if (affine.a != nullptr) return stored(affine, c, x[at]) <= T{0} ? T{0} : d;
  return d;
}

// --- Sums

// Channels of a piece of a thread: `f(first, count)`.
template <class F>
void over_channels(const Planes& p, CpuContext& context, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(1, p.rows * p.plane));
  parallel_for(*context.pool, p.channels, grain,
               [&](int64_t begin, int64_t end) { f(begin, end - begin); });
}

// `f(element)` for what the last, short block of lanes holds of images.
template <class F>
void over_short_row(const Planes& p, int64_t channel, F&& f) {
  if (p.valid == p.lanes || p.rows == 0) return;
  const int64_t begin = (p.rows - 1) * p.row_size() + channel * p.plane;
  for (int64_t cell = 0; cell < p.plane; cell += p.lanes) {
    for (int64_t lane = 0; lane < p.valid; ++lane) f(begin + cell + lane);
  }
}

template <class T, How how>
void sum_channels(const Planes& p, CpuContext& context) {
  const T* x = context.in<T>(0);
  double* count = context.out<double>(0);
  double *sums = count + p.channels, *squares = sums + p.channels;
  std::fill_n(count, p.channels, static_cast<double>(p.count()));
  std::fill_n(sums, 2 * p.channels, 0.0);
  over_channels(p, context, [&](int64_t first, int64_t channels) {
    const auto add = [&](int64_t c, int64_t at) {
      const auto value = static_cast<double>(x[at]);
      sums[c] += value;
      squares[c] += value * value;
    };
    if constexpr (how == How::kVector) {
      loops<T>().sums(x + first * p.plane, {p.whole_rows(), p.row_size(), channels, p.plane},
                      sums + first, squares + first);
    }
    for (int64_t c = first; c < first + channels; ++c) {
      for (int64_t row = 0; how == How::kReference && row < p.rows; ++row) {
        for (int64_t i = 0; i < p.plane; ++i) add(c, row * p.row_size() + c * p.plane + i);
      }
      over_short_row(p, c, [&](int64_t at) { add(c, at); });
    }
  });
}

// dy, x, mean, var, second, y, scale, bias -> dbias, dscale, dz
template <class T, How how>
void sum_gradients(const KernelRequest& request, const Planes& p, CpuContext& context) {
  using P = Number<T, how>;
  const T* x = context.in<T>(1);
  Incoming<T> g{context.in<T>(0), context.in<T>(4), context.in<T>(5), {}};
  double *dbias = context.out<double>(0), *dscale = context.out<double>(1);
  T* dz = context.out<T>(2);
  auto* mean = reinterpret_cast<double*>(context.workspace.data());
  const double epsilon = epsilon_of(request);
  Affine<P> affine;
  if (request.has_in(6)) {
    affine = affine_of(request, context, {6, 7, 2, 3}, p.channels,
                       reinterpret_cast<P*>(mean + p.channels));
    if constexpr (how == How::kVector) g.affine = affine;
  }
  std::fill_n(dbias, p.channels, 0.0);
  std::fill_n(dscale, p.channels, 0.0);
  for (int64_t c = 0; c < p.channels; ++c) mean[c] = read(context, request, 2, c);
  over_channels(p, context, [&](int64_t first, int64_t channels) {
    const auto add = [&](int64_t c, int64_t at) {
      const T d = gradient_at(g, affine, x, at, c);
      dbias[c] += static_cast<double>(d);
      dscale[c] += static_cast<double>(d) * (static_cast<double>(x[at]) - mean[c]);
      if (dz != nullptr) dz[at] = d;
    };
    if constexpr (how == How::kVector) {
      const int64_t at = first * p.plane;
      loops<T>().grad_sums(g.from(at, first), x + at, mean + first,
                           {p.whole_rows(), p.row_size(), channels, p.plane}, dbias + first,
                           dscale + first, dz == nullptr ? nullptr : dz + at);
    }
    for (int64_t c = first; c < first + channels; ++c) {
      for (int64_t row = 0; how == How::kReference && row < p.rows; ++row) {
        for (int64_t i = 0; i < p.plane; ++i) add(c, row * p.row_size() + c * p.plane + i);
      }
      over_short_row(p, c, [&](int64_t at) { add(c, at); });
      dscale[c] *= inverse_deviation(read(context, request, 3, c), epsilon);
    }
  });
}

// --- Row by row

// Pieces of whole planes: `f(element, channel, channels)`, inside one row each.
template <class F>
void over_planes(const Planes& p, CpuContext& context, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(1, p.plane));
  parallel_for(*context.pool, p.rows * p.channels, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t channel = begin % p.channels;
      const int64_t channels = std::min(end - begin, p.channels - channel);
      f(begin * p.plane, channel, channels);
      begin += channels;
    }
  });
}

template <class T, How how>
void apply(const KernelRequest& request, const Planes& p, CpuContext& context) {
  using P = Number<T, how>;
  const Affine<P> affine = affine_of(request, context, {1, 2, 3, 4}, p.channels,
                                     reinterpret_cast<P*>(context.workspace.data()));
  const bool relu = !request.node->get_string(batch_norm::kActivation, "").empty();
  const T *x = context.in<T>(0), *addend = context.in<T>(6);
  T* y = context.out<T>(0);
  over_planes(p, context, [&](int64_t at, int64_t first, int64_t channels) {
    if constexpr (how == How::kVector) {
      loops<T>().apply(x + at, addend == nullptr ? nullptr : addend + at, affine.from(first),
                       relu ? Activation::kRelu : Activation::kNone, channels, p.plane, y + at);
    } else {
      for (int64_t i = at; i < at + channels * p.plane; ++i) {
        T value = stored(affine, first + (i - at) / p.plane, x[i]);
        if (addend != nullptr) value += addend[i];
        y[i] = relu && value < T{0} ? T{0} : value;
      }
    }
  });
}

template <class T>
struct DataPass {
  Incoming<T> g;
  const T* x = nullptr;
  T* dx = nullptr;
};

// dx in pieces of whole planes, and its sums in pieces of channels where they are asked for.
template <class T>
void write_gradients(const Planes& p, const DataPass<T>& d, const Backward<T>& f, double* sums,
                     CpuContext& context) {
  const auto run = [&](int64_t at, int64_t c, Extent extent, double* to) {
    loops<T>().grad_data(d.g.from(at, c), d.x == nullptr ? nullptr : d.x + at,
                         {f.a + c, f.mean + c, f.k + c, f.c + c}, extent, d.dx + at, to);
  };
  if (sums == nullptr) {
    over_planes(p, context, [&](int64_t at, int64_t first, int64_t channels) {
      run(at, first, {1, 0, channels, p.plane}, nullptr);
    });
    return;
  }
  over_channels(p, context, [&](int64_t first, int64_t channels) {
    const int64_t at = first * p.plane;
    run(at, first, {p.whole_rows(), p.row_size(), channels, p.plane}, sums + first);
    if (p.whole_rows() == p.rows) return;
    run(at + p.whole_rows() * p.row_size(), first, {1, 0, channels, p.plane}, nullptr);
    for (int64_t c = first; c < first + channels; ++c) {
      over_short_row(p, c, [&](int64_t i) { sums[c] += static_cast<double>(d.dx[i]); });
    }
  });
}

// The same element by element, for one block of all rows.
template <class T>
void write_gradients_plainly(const Planes& p, const DataPass<T>& d, const Backward<double>& f,
                             const Affine<double>& affine, double* sums) {
  for (int64_t i = 0; i < p.numel(); ++i) {
    const int64_t c = i / p.plane % p.channels;
    const double correction = d.x == nullptr ? 0.0 : (d.x[i] - f.mean[c]) * f.k[c] + f.c[c];
    d.dx[i] = static_cast<T>(f.a[c] * gradient_at(d.g, affine, d.x, i, c) - correction);
    if (sums != nullptr) sums[c] += static_cast<double>(d.dx[i]);
  }
}

// dy, scale, var, x, mean, dbias, dscale, count, bias, second -> dx, sums of dx
template <class T, How how>
void gradient_data(const KernelRequest& request, const Planes& p, CpuContext& context) {
  using P = Number<T, how>;
  auto* sums = reinterpret_cast<double*>(context.workspace.data());
  P* a = reinterpret_cast<P*>(sums + p.channels);
  P *mean = a + p.channels, *k = mean + p.channels, *rest = k + p.channels;
  const bool through_statistics = request.has_in(3);
  const double epsilon = epsilon_of(request);
  for (int64_t c = 0; c < p.channels; ++c) {
    const double inverse = inverse_deviation(read(context, request, 2, c), epsilon);
    const double factor = read(context, request, 1, c) * inverse;
    a[c] = static_cast<P>(factor);
    if (!through_statistics) continue;
    const double exact = read(context, request, 4, c);
    const double share = factor / std::max(read(context, request, 7, 0), 1.0);
    const double slope = share * read(context, request, 6, c) * inverse;
    mean[c] = static_cast<P>(exact);
    k[c] = static_cast<P>(slope);
    rest[c] = static_cast<P>(share * read(context, request, 5, c) -
                             (exact - static_cast<double>(mean[c])) * slope);
  }
  DataPass<T> d{{context.in<T>(0), context.in<T>(9), nullptr, {}},
                through_statistics ? context.in<T>(3) : nullptr,
                context.out<T>(0)};
  Affine<P> affine;
  if (request.has_in(8)) {
    affine = affine_of(request, context, {1, 8, 4, 2}, p.channels, rest + p.channels);
  }
  T* dx_sums = context.out<T>(1);
  if (dx_sums == nullptr) sums = nullptr;
  if (sums != nullptr) std::fill_n(sums, p.channels, 0.0);
  const Backward<P> backward{a, mean, k, rest};
  if constexpr (how == How::kVector) {
    d.g.affine = affine;
    write_gradients(p, d, backward, sums, context);
  } else {
    write_gradients_plainly(p, d, backward, affine, sums);
  }
  for (int64_t c = 0; sums != nullptr && c < p.channels; ++c) dx_sums[c] = static_cast<T>(sums[c]);
}

// --- Per channel

void moments(const KernelRequest& request, CpuContext& context) {
  const int64_t channels = request.in[0].shape()[1];
  const double* count = context.in<double>(0);
  const double *sums = count + channels, *squares = sums + channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double n = std::max(count[c], 1.0);
    const double mean = sums[c] / n;
    context.out<double>(0)[c] = mean;
    context.out<double>(1)[c] = std::max((squares[c] - sums[c] * mean) / n, 0.0);
  }
  *context.out<double>(2) = channels > 0 ? count[0] : 0.0;
}

void running(const KernelRequest& request, CpuContext& context) {
  const double momentum = request.node->get_float("momentum", 0.9);
  const double count = read(context, request, 4, 0);
  const bool sample = request.node->get_int("sample_variance", 0) != 0 && count > 1;
  const double stretch[] = {1.0, sample ? count / (count - 1) : 1.0};
  for (const int i : {0, 1}) {
    dispatch_float(request.out[i].dtype, [&]<class T>() {
      T* next = context.out<T>(i);
      for (int64_t c = 0; c < request.out[i].numel(); ++c) {
        const double batch = read(context, request, i + 2, c) * stretch[i];
        next[c] = static_cast<T>(momentum * read(context, request, i, c) + (1 - momentum) * batch);
      }
    });
  }
}

void commit(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const T* from = context.in<T>(std::isfinite(read(context, request, 2, 0)) ? 1 : 0);
    const bool averaged = request.has_in(3) && from == context.in<T>(1);
    const double share = averaged ? 1 / read(context, request, 3, 0) : 1.0;
    T* next = context.out<T>(0);
    for (int64_t i = 0; i < request.out[0].numel(); ++i) {
      next[i] = static_cast<T>(static_cast<double>(from[i]) * share);
    }
  });
}

// --- Definition

using Body = void (*)(const KernelRequest&, const Planes&, CpuContext&);

// `per_channel`: numbers of workspace for each channel.
class PlanesKernel final : public Kernel {
 public:
  PlanesKernel(const KernelRequest& request, int64_t per_channel, Body body)
      : request_(request),
        planes_(planes_of(request.in[0])),
        bytes_(static_cast<size_t>(planes_.channels * per_channel) * sizeof(double)),
        body_(body) {}
  size_t workspace_bytes() const override { return bytes_; }
  void run(CpuContext& context) const override { body_(request_, planes_, context); }

 private:
  KernelRequest request_;
  Planes planes_;
  size_t bytes_;
  Body body_;
};

template <How how>
void run_sums(const KernelRequest& request, const Planes& p, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() { sum_channels<T, how>(p, context); });
}
template <How how>
void run_grad_sums(const KernelRequest& request, const Planes& p, CpuContext& context) {
  dispatch_float(request.in[0].dtype,
                 [&]<class T>() { sum_gradients<T, how>(request, p, context); });
}
template <How how>
void run_apply(const KernelRequest& request, const Planes& p, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() { apply<T, how>(request, p, context); });
}
template <How how>
void run_grad_data(const KernelRequest& request, const Planes& p, CpuContext& context) {
  dispatch_float(request.in[0].dtype,
                 [&]<class T>() { gradient_data<T, how>(request, p, context); });
}

struct Operator {
  const char *domain, *name;
  int64_t per_channel;
  std::vector<std::pair<int, int>> in_place;
  Body reference, vector;
};

void add_kernels(KernelRegistry& kernels, const Operator& op) {
  KernelDef kernel;
  kernel.domain = op.domain;
  kernel.op = op.name;
  kernel.in_place = op.in_place;
  kernel.declines = {batch_norm::unless_float_operands()};
  const auto add = [&](const char* name, Speed speed, Layouts layouts, Body body) {
    kernel.name = name;
    kernel.speed = speed;
    kernel.layouts = layouts;
    kernel.create = [per_channel = op.per_channel, body](const KernelRequest& request) {
      return std::make_unique<PlanesKernel>(request, per_channel, body);
    };
    kernels.add(kernel);
  };
  add("batch_norm.ref", Speed::kReference, Layouts::kPlain, op.reference);
  add("batch_norm.vector", Speed::kOptimised, Layouts::kPlain, op.vector);
  add("batch_norm.lanes", Speed::kBest, Layouts::kLanes, op.vector);
}

void add_reference(KernelRegistry& kernels, const char* name, KernelFunction function,
                   std::vector<std::pair<int, int>> in_place = {}) {
  KernelDef kernel;
  kernel.domain = kDomain;
  kernel.op = name;
  kernel.name = "batch_norm.ref";
  kernel.in_place = std::move(in_place);
  kernel.declines = {batch_norm::unless_float_operands()};
  kernel.create = simple_kernel(std::move(function));
  kernels.add(std::move(kernel));
}

}  // namespace

Refusal batch_norm::unless_float_operands() {
  return {"takes operands of float and double only", [](const KernelRequest& request) {
            return std::any_of(request.in.begin(), request.in.end(), [](const TensorType& type) {
              return type.dtype != DType::kUndefined && type.dtype != DType::kFloat32 &&
                     type.dtype != DType::kFloat64;
            });
          }};
}

void register_batch_norm_cpu(KernelRegistry& kernels) {
  constexpr auto kRef = How::kReference;
  constexpr auto kVec = How::kVector;
  for (const Operator& op : {
           Operator{"", "BatchNormalization", 3, {{0, 0}}, run_apply<kRef>, run_apply<kVec>},
           Operator{
               kDomain, "BatchNormApply", 3, {{0, 0}, {0, 6}}, run_apply<kRef>, run_apply<kVec>},
           Operator{kDomain, "BatchNormSums", 0, {}, run_sums<kRef>, run_sums<kVec>},
           Operator{kDomain,
                    "BatchNormGradSums",
                    4,
                    {{2, 0}, {2, 4}, {2, 5}},
                    run_grad_sums<kRef>,
                    run_grad_sums<kVec>},
           Operator{kDomain,
                    "BatchNormGradData",
                    8,
                    {{0, 0}, {0, 9}, {0, 3}},
                    run_grad_data<kRef>,
                    run_grad_data<kVec>},
       }) {
    add_kernels(kernels, op);
  }
  add_reference(kernels, "BatchNormMoments", moments);
  add_reference(kernels, "BatchNormRunning", running, {{0, 0}, {1, 1}});
  add_reference(kernels, "CommitStatistic", commit);
}

}  // namespace sardonyx::ops
