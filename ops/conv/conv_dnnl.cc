// Convolution by oneDNN, float32, one to three spatial axes.
//
// Operands are plain in the graph; the layout that oneDNN prefers exists only in the workspace. A
// big batch runs in pieces of some images, so that what is copied is still in cache when it is
// used; weights are copied once per run, and filter gradients of the pieces are added up in
// oneDNN's layout.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/dnnl.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops::conv {

namespace {

using dnnl::Algorithm;
using dnnl::Dims;
using dnnl::Format;
using dnnl::Operand;
using dnnl::Primitive;
using dnnl::ReorderMode;

// What the copies of a piece's images should take: a share of the second-level cache, but not less
// than twice the filter, which every piece reads again.
constexpr int64_t kPieceBytes = 2 << 20;

Dims shape_of(int64_t batch, int64_t channels, const std::vector<int64_t>& cells) {
  Dims dims{batch, channels};
  dims.insert(dims.end(), cells.begin(), cells.end());
  return dims;
}

Dims filter_shape(const ConvGeometry& g) {
  Dims dims{g.group_outputs(), g.group_channels()};
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  dims.insert(dims.end(), g.window.kernel.begin(), g.window.kernel.end());
  return dims;
}

// Images per piece, all but the last alike. `at_once`: pieces that are in work together.
int64_t piece_images(const ConvGeometry& g, int64_t filter_share, int at_once = 1) {
  const int64_t image_bytes =
      4 * (g.channels * g.window.in_cells() + g.outputs * g.window.out_cells());
  const int64_t bytes = std::max(kPieceBytes / at_once, 4 * filter_share * g.filter_numel());
  const int64_t most = std::clamp<int64_t>(bytes / image_bytes, 2, std::max<int64_t>(g.batch, 2));
  const int64_t pieces = (g.batch + most - 1) / most;
  return (g.batch + pieces - 1) / pieces;
}

// How images lie inside a piece: as the primitive chooses, or channels last.
enum class Images : uint8_t { kAny, kChannelsLast };

struct Variant {
  Algorithm algorithm = Algorithm::kDirect;
  Images images = Images::kAny;
};

Format image_format(const Dims& dims, Images images) {
  if (images == Images::kAny) return Format::any(dims);
  Dims strides(dims.size(), 1);
  int64_t cells = 1;
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = dims[1] * cells;
    cells *= dims[i];
  }
  strides[0] = dims[1] * cells;
  return Format::strided(dims, strides);
}

enum class Pass : uint8_t { kForward, kGradData, kGradFilter };
enum class HasBias : uint8_t { kNo, kYes };

// The primitive for `images` images. Its own layouts, except where `weights` is given.
std::optional<Primitive> convolution(const ConvGeometry& g, int64_t images, Pass pass,
                                     const Variant& variant, HasBias has_bias,
                                     const Format* weights) {
  dnnl::Convolution c{image_format(shape_of(images, g.channels, g.window.in), variant.images),
                      weights != nullptr ? *weights : Format::any(filter_shape(g)),
                      image_format(shape_of(images, g.outputs, g.window.out), variant.images),
                      std::nullopt,
                      g.window.stride,
                      g.window.dilation,
                      g.window.pad_begin,
                      g.window.pad_end,
                      variant.algorithm};
  if (has_bias == HasBias::kYes) c.bias = Format::plain({g.outputs});
  switch (pass) {
    case Pass::kForward:
      return dnnl::convolution_forward(c);
    case Pass::kGradData:
      return dnnl::convolution_grad_data(c);
    case Pass::kGradFilter:
      return dnnl::convolution_grad_filter(c);
  }
  return std::nullopt;
}

// Direct in a layout of its own where the wished variant does not exist.
Primitive require_convolution(const ConvGeometry& g, int64_t images, Pass pass,
                              const Variant& variant, HasBias has_bias, const Format* weights) {
  for (const Variant& v : {variant, Variant()}) {
    if (auto primitive = convolution(g, images, pass, v, has_bias, weights)) {
      return std::move(*primitive);
    }
  }
  throw Error("oneDNN has no convolution for {} images of {} channels", images, g.channels);
}

// The workspace as consecutive aligned parts.
class Parts {
 public:
  // Offset of a new part.
  size_t add(size_t bytes) {
    const size_t offset = total_;
    total_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  size_t total() const { return total_; }

 private:
  size_t total_ = 0;
};

// One operand on its way between the graph (plain) and a primitive.
class Copy {
 public:
  Copy(const Format& plain, const Format& inner)
      : needed_(!(plain == inner)), bytes_(inner.bytes()) {}
  bool needed() const { return needed_; }
  size_t bytes() const { return needed_ ? bytes_ : 0; }

  static Copy load(const Format& plain, const Format& inner) {
    Copy copy(plain, inner);
    if (copy.needed_) copy.reorder_.emplace(dnnl::reorder(plain, inner));
    return copy;
  }
  static Copy store(const Format& inner, const Format& plain,
                    ReorderMode mode = ReorderMode::kCopy) {
    Copy copy(plain, inner);
    if (copy.needed_) copy.reorder_.emplace(dnnl::reorder(inner, plain, mode));
    return copy;
  }

  size_t scratchpad_bytes() const { return needed_ ? reorder_->scratchpad_bytes() : 0; }
  void run(const void* from, void* to, std::span<std::byte> scratchpad) const {
    reorder_->run({{Operand::kSrc, from}, {Operand::kDst, to}}, scratchpad);
  }
  // The operand as a primitive reads it: itself, or its copy in `to`.
  const void* loaded(const void* from, void* to, std::span<std::byte> scratchpad) const {
    if (!needed_) return from;
    run(from, to, scratchpad);
    return to;
  }

 private:
  bool needed_;
  size_t bytes_;
  std::optional<Primitive> reorder_;
};

// Forward and data gradient: images in, images out, weights read.
class ImagePass final : public Kernel {
 public:
  ImagePass(const ConvGeometry& g, Pass pass, const Variant& variant, HasBias has_bias)
      : pass_(pass), batch_(g.batch), images_(piece_images(g, 2)) {
    const bool forward = pass == Pass::kForward;
    in_cells_ = forward ? g.channels * g.window.in_cells() : g.outputs * g.window.out_cells();
    out_cells_ = forward ? g.outputs * g.window.out_cells() : g.channels * g.window.in_cells();
    pieces_.push_back(piece(g, images_, variant, has_bias, nullptr));
    const Format inner_weights = pieces_[0].main.format(Operand::kWeights);
    const Format plain_weights = Format::plain(filter_shape(g));
    weights_.emplace(Copy::load(plain_weights, inner_weights));
    if (const int64_t rest = batch_ % images_; rest != 0) {
      pieces_.push_back(piece(g, rest, variant, has_bias, &inner_weights));
    }
    size_t scratchpad = weights_->scratchpad_bytes();
    for (const Piece& p : pieces_) {
      for (const size_t bytes :
           {p.main.scratchpad_bytes(), p.load.scratchpad_bytes(), p.store.scratchpad_bytes()}) {
        scratchpad = std::max(scratchpad, bytes);
      }
    }
    weights_at_ = parts_.add(weights_->bytes());
    in_at_ = parts_.add(most([](const Piece& p) { return p.load.bytes(); }));
    out_at_ = parts_.add(most([](const Piece& p) { return p.store.bytes(); }));
    scratchpad_at_ = parts_.add(scratchpad);
  }

  size_t workspace_bytes() const override { return parts_.total(); }

  void run(CpuContext& context) const override {
    const bool forward = pass_ == Pass::kForward;
    std::byte* work = context.workspace.data();
    const std::span<std::byte> scratchpad = context.workspace.subspan(scratchpad_at_);
    const float* in = context.in<float>(forward ? 0 : 1);
    float* out = context.out<float>(0);
    const void* w =
        weights_->loaded(context.in<float>(forward ? 1 : 0), work + weights_at_, scratchpad);
    for (int64_t n = 0; n < batch_; n += images_) {
      const Piece& p = pieces_[n + images_ <= batch_ ? 0 : 1];
      const void* src = p.load.loaded(in + n * in_cells_, work + in_at_, scratchpad);
      float* plain = out + n * out_cells_;
      void* dst = p.store.needed() ? static_cast<void*>(work + out_at_) : plain;
      if (!forward) {
        p.main.run({{Operand::kDiffDst, src}, {Operand::kWeights, w}, {Operand::kDiffSrc, dst}},
                   scratchpad);
      } else if (const float* b = context.in<float>(2)) {
        p.main.run({{Operand::kSrc, src},
                    {Operand::kWeights, w},
                    {Operand::kBias, b},
                    {Operand::kDst, dst}},
                   scratchpad);
      } else {
        p.main.run({{Operand::kSrc, src}, {Operand::kWeights, w}, {Operand::kDst, dst}},
                   scratchpad);
      }
      if (p.store.needed()) p.store.run(dst, plain, scratchpad);
    }
  }

 private:
  struct Piece {
    Primitive main;
    Copy load, store;
  };

  Piece piece(const ConvGeometry& g, int64_t images, const Variant& variant, HasBias has_bias,
              const Format* weights) const {
    Primitive main = require_convolution(g, images, pass_, variant, has_bias, weights);
    const Format x = Format::plain(shape_of(images, g.channels, g.window.in));
    const Format y = Format::plain(shape_of(images, g.outputs, g.window.out));
    if (pass_ == Pass::kForward) {
      Copy load = Copy::load(x, main.format(Operand::kSrc));
      Copy store = Copy::store(main.format(Operand::kDst), y);
      return {std::move(main), std::move(load), std::move(store)};
    }
    Copy load = Copy::load(y, main.format(Operand::kDiffDst));
    Copy store = Copy::store(main.format(Operand::kDiffSrc), x);
    return {std::move(main), std::move(load), std::move(store)};
  }

  template <class F>
  size_t most(F bytes) const {
    size_t result = 0;
    for (const Piece& p : pieces_) result = std::max(result, bytes(p));
    return result;
  }

  Pass pass_;
  int64_t batch_, images_, in_cells_ = 0, out_cells_ = 0;
  std::vector<Piece> pieces_;  // the usual one, then the tail
  std::optional<Copy> weights_;
  Parts parts_;
  size_t weights_at_ = 0, in_at_ = 0, out_at_ = 0, scratchpad_at_ = 0;
};

void add_to(ThreadPool& pool, const float* from, float* to, int64_t count) {
  constexpr int64_t kGrain = 1 << 14;
  parallel_for(pool, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

// Filter gradient: images in, summed over the pieces. oneDNN can't add to what is there, so every
// piece after the first goes through a copy.
class FilterPass final : public Kernel {
 public:
  // A piece costs three more passes over the filter.
  FilterPass(const ConvGeometry& g, const Variant& variant, int at_once = 1)
      : batch_(g.batch), images_(piece_images(g, 4, at_once)) {
    x_cells_ = g.channels * g.window.in_cells();
    y_cells_ = g.outputs * g.window.out_cells();
    pieces_.push_back(piece(g, images_, variant, nullptr));
    const Format inner = pieces_[0].main.format(Operand::kDiffWeights);
    const Format plain = Format::plain(filter_shape(g));
    store_.emplace(Copy::store(inner, plain));
    store_add_.emplace(Copy::store(inner, plain, ReorderMode::kAdd));
    numel_ = static_cast<int64_t>(inner.bytes() / sizeof(float));
    if (const int64_t rest = batch_ % images_; rest != 0) {
      pieces_.push_back(piece(g, rest, variant, &inner));
    }
    size_t scratchpad = std::max(store_->scratchpad_bytes(), store_add_->scratchpad_bytes());
    size_t x = 0, y = 0;
    for (const Piece& p : pieces_) {
      for (const size_t bytes :
           {p.main.scratchpad_bytes(), p.load_x.scratchpad_bytes(), p.load_dy.scratchpad_bytes()}) {
        scratchpad = std::max(scratchpad, bytes);
      }
      x = std::max(x, p.load_x.bytes());
      y = std::max(y, p.load_dy.bytes());
    }
    sum_at_ = parts_.add(inner.bytes());
    piece_at_ = parts_.add(images_ < batch_ ? inner.bytes() : 0);
    x_at_ = parts_.add(x);
    y_at_ = parts_.add(y);
    scratchpad_at_ = parts_.add(scratchpad);
  }

  size_t workspace_bytes() const override { return parts_.total(); }

  void run(CpuContext& context) const override {
    std::byte* work = context.workspace.data();
    const std::span<std::byte> scratchpad = context.workspace.subspan(scratchpad_at_);
    const float* x = context.in<float>(0);
    const float* dy = context.in<float>(1);
    float* dw = context.out<float>(0);
    const bool direct = !store_->needed() && !context.accumulate;
    float* sum = direct ? dw : reinterpret_cast<float*>(work + sum_at_);
    for (int64_t n = 0; n < batch_; n += images_) {
      const Piece& p = pieces_[n + images_ <= batch_ ? 0 : 1];
      float* target = n == 0 ? sum : reinterpret_cast<float*>(work + piece_at_);
      const void* src = p.load_x.loaded(x + n * x_cells_, work + x_at_, scratchpad);
      const void* dst = p.load_dy.loaded(dy + n * y_cells_, work + y_at_, scratchpad);
      p.main.run({{Operand::kSrc, src}, {Operand::kDiffDst, dst}, {Operand::kDiffWeights, target}},
                 scratchpad);
      if (n > 0) add_to(*context.pool, target, sum, numel_);
    }
    if (store_->needed()) {
      (context.accumulate ? store_add_ : store_)->run(sum, dw, scratchpad);
    } else if (context.accumulate) {
      add_to(*context.pool, sum, dw, numel_);
    }
  }

 private:
  struct Piece {
    Primitive main;
    Copy load_x, load_dy;
  };

  static Piece piece(const ConvGeometry& g, int64_t images, const Variant& variant,
                     const Format* filter) {
    Primitive main =
        require_convolution(g, images, Pass::kGradFilter, variant, HasBias::kNo, filter);
    Copy x = Copy::load(Format::plain(shape_of(images, g.channels, g.window.in)),
                        main.format(Operand::kSrc));
    Copy dy = Copy::load(Format::plain(shape_of(images, g.outputs, g.window.out)),
                         main.format(Operand::kDiffDst));
    return {std::move(main), std::move(x), std::move(dy)};
  }

  int64_t batch_, images_, x_cells_ = 0, y_cells_ = 0, numel_ = 0;
  std::vector<Piece> pieces_;  // the usual one, then the tail
  std::optional<Copy> store_, store_add_;
  Parts parts_;
  size_t sum_at_ = 0, piece_at_ = 0, x_at_ = 0, y_at_ = 0, scratchpad_at_ = 0;
};

// The same for a small filter on several threads: each adds up its images alone, and nothing waits
// inside oneDNN, whose barriers poll without end and lose whole time slices where other programs
// use the processor.
class SharedFilterPass final : public Kernel {
 public:
  // A filter that leaves the caches, or few products for each of its values, would cost more in the
  // sum over threads than it saves.
  static bool serves(const ConvGeometry& g, const Variant& variant, int threads) {
    constexpr int64_t kMostBytes = 1 << 20, kLeastProducts = 64;
    return threads > 1 && variant.algorithm == Algorithm::kDirect && g.batch >= threads &&
           4 * g.filter_numel() <= kMostBytes &&
           g.batch / threads * g.window.out_cells() >= kLeastProducts;
  }

  SharedFilterPass(const ConvGeometry& g, const Variant& variant, int threads)
      : numel_(g.filter_numel()),
        x_image_(g.channels * g.window.in_cells()),
        y_image_(g.outputs * g.window.out_cells()) {
    const ScopedLibraryThreads alone(1);
    for (int t = 0; t < threads; ++t) {
      Share share;
      share.first = g.batch * t / threads;
      ConvGeometry own = g;
      own.batch = g.batch * (t + 1) / threads - share.first;
      share.pass = std::make_unique<FilterPass>(own, variant, threads);
      share.partial_at = parts_.add(t > 0 ? sizeof(float) * numel_ : 0);
      share.workspace_at = parts_.add(share.pass->workspace_bytes());
      shares_.push_back(std::move(share));
    }
  }

  size_t workspace_bytes() const override { return parts_.total(); }

  void run(CpuContext& context) const override {
    float* dw = context.out<float>(0);
    context.pool->run(static_cast<int>(shares_.size()), [&](int t) {
      const Share& share = shares_[t];
      const ScopedLibraryThreads alone(1);
      SerialPool serial;
      CpuContext own;
      own.inputs = {context.in<float>(0) + share.first * x_image_,
                    context.in<float>(1) + share.first * y_image_};
      own.outputs = {t == 0 ? dw : partial(context, share)};
      own.workspace = context.workspace.subspan(share.workspace_at, share.pass->workspace_bytes());
      own.pool = &serial;
      own.accumulate = t == 0 && context.accumulate;
      share.pass->run(own);
    });
    for (size_t t = 1; t < shares_.size(); ++t) {
      add_to(*context.pool, partial(context, shares_[t]), dw, numel_);
    }
  }

 private:
  struct Share {
    std::unique_ptr<FilterPass> pass;
    int64_t first = 0;  // image
    size_t partial_at = 0, workspace_at = 0;
  };

  static float* partial(const CpuContext& context, const Share& share) {
    return reinterpret_cast<float*>(context.workspace.data() + share.partial_at);
  }

  int64_t numel_, x_image_, y_image_;
  std::vector<Share> shares_;
  Parts parts_;
};

using Decode = ConvGeometry (*)(const KernelRequest&);

std::vector<Refusal> direct_refusals() {
  return {unless_float32(), beyond_axes(3), needs_images()};
}

// Expected speed of Winograd in tiles of 4x4 against the direct sum, from measurements on one core
// with AVX-512: it saves 3/4 of the products, but turns 36 values per tile and channel, and the
// whole filter in every run. Tiles that hang over the border count in full.
double winograd_gain(const ConvGeometry& g) {
  const auto tiles_along = [](int64_t cells) { return static_cast<double>((cells + 3) / 4); };
  const auto channels = static_cast<double>(g.channels), outputs = static_cast<double>(g.outputs);
  const double tiles =
      static_cast<double>(g.batch) * tiles_along(g.window.out[0]) * tiles_along(g.window.out[1]);
  constexpr double kFlopsPerNs = 225, kTurnNs = 11.3, kFilterNs = 35, kStartNs = 250e3;
  const double winograd = kStartNs + 72 * tiles * channels * outputs / kFlopsPerNs +
                          kTurnNs * tiles * (channels + outputs) + kFilterNs * channels * outputs;
  return g.flops(g.window.out) / kFlopsPerNs / winograd;
}

// The direct filter gradient is slower than the direct sums that the gain assumes.
double least_winograd_gain(Pass pass) { return pass == Pass::kGradFilter ? 0.75 : 1.05; }

std::vector<Refusal> winograd_refusals(Decode decode, Pass pass) {
  const auto geometry = [decode](auto&& applies) {
    return [=](const KernelRequest& request) { return applies(decode(request)); };
  };
  return joined(
      direct_refusals(),
      {{"Winograd needs a 3x3 kernel, stride 1 and one group", geometry([](const ConvGeometry& g) {
          const std::vector<int64_t> threes{3, 3}, ones{1, 1};
          return g.groups > 1 || g.window.kernel != threes || g.window.stride != ones ||
                 g.window.dilation != ones;
        })},
       {"Winograd needs channels in sixteens", geometry([](const ConvGeometry& g) {
          return g.channels % 16 != 0 || g.outputs % 16 != 0;
        })},
       {"Winograd needs AVX-512",
        [](const KernelRequest&) { return !__builtin_cpu_supports("avx512f"); }},
       {"Winograd does not pay for so few or so small images",
        geometry(
            [pass](const ConvGeometry& g) { return winograd_gain(g) < least_winograd_gain(pass); }),
        RefusalKind::kSlow}});
}

std::vector<Refusal> channels_last_refusals(Decode, Pass) {
  return joined(direct_refusals(),
                {{"is faster in few cases, which measurements find (--tune)",
                  [](const KernelRequest&) { return true; }, RefusalKind::kSlow}});
}

// The three kernels of a variant.
void add_kernels(KernelRegistry& kernels, KernelDef kernel, const Variant& variant,
                 std::vector<Refusal> (*refusals)(Decode, Pass)) {
  kernel.speed = Speed::kOptimised;
  const auto add = [&](const char* domain, const char* op, Pass pass, Decode decode) {
    kernel.domain = domain;
    kernel.op = op;
    kernel.accumulates = pass == Pass::kGradFilter;
    kernel.declines = refusals(decode, pass);
    kernel.create = [=](const KernelRequest& request) -> std::unique_ptr<Kernel> {
      const ConvGeometry g = decode(request);
      if (pass == Pass::kGradFilter) {
        if (SharedFilterPass::serves(g, variant, library_threads)) {
          return std::make_unique<SharedFilterPass>(g, variant, library_threads);
        }
        return std::make_unique<FilterPass>(g, variant);
      }
      const HasBias bias =
          pass == Pass::kForward && request.has_in(2) ? HasBias::kYes : HasBias::kNo;
      return std::make_unique<ImagePass>(g, pass, variant, bias);
    };
    kernels.add(kernel);
  };
  add("", "Conv", Pass::kForward, ConvGeometry::forward);
  add(kDomain, "ConvGradData", Pass::kGradData, ConvGeometry::grad_data);
  add(kDomain, "ConvGradFilter", Pass::kGradFilter, ConvGeometry::grad_filter);
}

}  // namespace

void register_conv_winograd(KernelRegistry& kernels) {
  KernelDef kernel;
  kernel.name = "conv.onednn_winograd";
  kernel.rounding = Rounding::kTransformed;
  add_kernels(kernels, std::move(kernel), {Algorithm::kWinograd, Images::kAny}, winograd_refusals);
}

void register_conv_dnnl(KernelRegistry& kernels) {
  KernelDef kernel;
  kernel.name = "conv.onednn";
  add_kernels(kernels, kernel, {}, [](Decode, Pass) { return direct_refusals(); });
  kernel.name = "conv.onednn_nhwc";
  add_kernels(kernels, std::move(kernel), {Algorithm::kDirect, Images::kChannelsLast},
              channels_last_refusals);
}

}  // namespace sardonyx::ops::conv
