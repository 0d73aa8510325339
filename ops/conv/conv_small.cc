// Convolution of images so small that many taps meet only padding: of a 3x3 filter over an image of
// one cell the centre alone. Float, any number of axes.
//
// The pairs of cells and taps that meet are listed once, and a result is one sum over its list:
// what meets padding is neither read nor multiplied. Filters are read where they lie, image by
// image operands as vectors of 16 images; in the filter gradient the vectors are 16 channels.
// Threads share rows of the result (outputs, channels, outputs), and no sum is cut over threads.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/conv/conv_small.h"
#include "ops/core/isa.h"
#include "ops/core/lane_shapes.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops::conv {

namespace {

using lanes::blocks_of;
using lanes::kLanes;
using small::kRows;
using small::Term;

const small::Loops& loops() {
  static const small::Loops& best =
      best_copy(small::baseline::loops(), small::avx2::loops(), small::avx512::loops());
  return best;
}

// Images that go together: their operands stay in the second-level cache while the filter passes
// by, which costs less the more images it serves.
int64_t chunk_images(const ConvGeometry& g) {
  constexpr int64_t kChunkBytes = 512 << 10, kFewest = 64;
  const int64_t image_bytes =
      4 * std::max(g.channels * g.window.in_cells(), g.outputs * g.window.out_cells());
  const int64_t most = std::max(kFewest, kChunkBytes / image_bytes);
  const int64_t chunks = (g.batch + most - 1) / most;
  return (blocks_of(g.batch) + chunks - 1) / chunks * kLanes;
}

// The terms of each cell, one list behind the other.
struct TermLists {
  std::vector<Term> terms;
  std::vector<size_t> begins{0};

  int64_t cells() const { return static_cast<int64_t>(begins.size()) - 1; }
  const Term* of(int64_t cell) const { return terms.data() + begins[cell]; }
  int64_t count(int64_t cell) const {
    return static_cast<int64_t>(begins[cell + 1] - begins[cell]);
  }
};

template <class F>
TermLists term_lists(const Window& window, CellsOf walked, F&& term_of) {
  TermLists lists;
  const Meetings meetings(window, walked);
  std::vector<Meeting> here;
  for (int64_t cell = 0; cell < meetings.cells(); ++cell) {
    meetings.of(cell, here);
    for (const Meeting& meeting : here) lists.terms.push_back(term_of(meeting));
    lists.begins.push_back(lists.terms.size());
  }
  return lists;
}

// Rows [begin, end), cut where a group ends: f(row, count, group).
template <class F>
void for_rows(int64_t begin, int64_t end, int64_t group_rows, F&& f) {
  while (begin < end) {
    const int64_t group = begin / group_rows;
    const int64_t count = std::min({kRows, end - begin, (group + 1) * group_rows - begin});
    f(begin, count, group);
    begin += count;
  }
}

// rows [count][row_stride] -> lanes [block][length][16], `length` elements of each row.
void turn_to_lanes(const float* rows, int64_t row_stride, int64_t count, int64_t length, float* to,
                   ThreadPool& pool) {
  constexpr int64_t kPiece = 512;
  const int64_t pieces = (length + kPiece - 1) / kPiece;
  parallel_for(pool, blocks_of(count) * pieces, 1 + 4096 / (kLanes * kPiece),
               [&](int64_t b, int64_t e) {
                 for (int64_t i = b; i < e; ++i) {
                   const int64_t block = i / pieces, first = i % pieces * kPiece;
                   lanes::lane_kernels<float>().to_lanes(
                       rows + block * kLanes * row_stride + first, row_stride,
                       static_cast<int>(std::min<int64_t>(kLanes, count - block * kLanes)),
                       static_cast<int>(std::min(kPiece, length - first)),
                       to + (block * length + first) * kLanes);
                 }
               });
}

enum class Direction : uint8_t { kForward, kGradData };

// Forward and data gradient. `in` and `out` mean images here: dy and dx in the data gradient.
class SmallImages final : public Kernel {
 public:
  SmallImages(const ConvGeometry& g, Direction direction)
      : direction_(direction), batch_(g.batch), chunk_(chunk_images(g)), groups_(g.groups) {
    const bool forward = direction == Direction::kForward;
    const int64_t x_cells = g.window.in_cells(), y_cells = g.window.out_cells();
    const int64_t taps = g.window.taps();
    in_channels_ = g.channels;
    out_channels_ = g.outputs;
    in_cells_ = x_cells;
    out_cells_ = y_cells;
    w_row_ = g.group_channels() * taps;
    w_step_ = taps;
    if (!forward) {
      std::swap(in_channels_, out_channels_);
      std::swap(in_cells_, out_cells_);
      std::swap(w_row_, w_step_);
    }
    w_group_ = g.group_outputs() * g.group_channels() * taps;
    lists_ =
        term_lists(g.window, forward ? CellsOf::kOutput : CellsOf::kInput, [](const Meeting& m) {
          return Term{m.second, m.first * kLanes};
        });
  }

  size_t workspace_bytes() const override {
    return sizeof(float) * chunk_ * (in_image() + out_image());
  }

  void run(CpuContext& context) const override {
    const bool forward = direction_ == Direction::kForward;
    const float* in = context.in<float>(forward ? 0 : 1);
    const float* w = context.in<float>(forward ? 1 : 0);
    const float* b = forward ? context.in<float>(2) : nullptr;
    float* out = context.out<float>(0);
    float* vectors = reinterpret_cast<float*>(context.workspace.data());
    float* results = vectors + chunk_ * in_image();
    for (int64_t n = 0; n < batch_; n += chunk_) {
      const int64_t images = std::min(chunk_, batch_ - n);
      turn_to_lanes(in + n * in_image(), in_image(), images, in_image(), vectors, *context.pool);
      parallel_for(*context.pool, out_channels_, 1, [&](int64_t begin, int64_t end) {
        multiply(vectors, w, b, results, images, begin, end);
        turn_back(results, images, begin, end, out + n * out_image());
      });
    }
  }

 private:
  int64_t in_image() const { return in_channels_ * in_cells_; }
  int64_t out_image() const { return out_channels_ * out_cells_; }

  void multiply(const float* vectors, const float* w, const float* b, float* results,
                int64_t images, int64_t begin, int64_t end) const {
    const int64_t group_in = in_channels_ / groups_, group_out = out_channels_ / groups_;
    for_rows(begin, end, group_out, [&](int64_t row, int64_t count, int64_t group) {
      for (int64_t cell = 0; cell < out_cells_; ++cell) {
        small::Product p;
        p.scalars = w + group * w_group_ + row % group_out * w_row_;
        p.scalar_row = w_row_;
        p.scalar_step = w_step_;
        p.vectors = vectors + group * group_in * in_cells_ * kLanes;
        p.vector_block = in_image() * kLanes;
        p.vector_step = in_cells_ * kLanes;
        p.terms = lists_.of(cell);
        p.term_count = lists_.count(cell);
        p.depth = group_in;
        p.bias = b == nullptr ? nullptr : b + row;
        p.out = results + (row * out_cells_ + cell) * kLanes;
        p.out_row = out_cells_ * kLanes;
        p.out_block = out_image() * kLanes;
        p.rows = count;
        p.blocks = blocks_of(images);
        loops().multiply(p);
      }
    });
  }

  void turn_back(const float* results, int64_t images, int64_t begin, int64_t end,
                 float* out) const {
    for (int64_t block = 0; block < blocks_of(images); ++block) {
      lanes::lane_kernels<float>().from_lanes(
          results + (block * out_image() + begin * out_cells_) * kLanes,
          static_cast<int>(std::min<int64_t>(kLanes, images - block * kLanes)),
          static_cast<int>((end - begin) * out_cells_),
          out + block * kLanes * out_image() + begin * out_cells_, out_image());
    }
  }

  Direction direction_;
  int64_t batch_, chunk_, groups_;
  int64_t in_channels_, out_channels_, in_cells_, out_cells_;
  int64_t w_row_, w_step_, w_group_;  // strides of the filter by result channel, by summed channel
  TermLists lists_;                   // by cell of the result
};

// Vectors are 16 channels of x, rows are outputs, the sum runs over images and cells.
class SmallFilter final : public Kernel {
 public:
  explicit SmallFilter(const ConvGeometry& g)
      : g_(g), chunk_(chunk_images(g)), x_cells_(g.window.in_cells()) {
    y_cells_ = g.window.out_cells();
    lists_ = term_lists(g.window, CellsOf::kTaps, [](const Meeting& m) {
      return Term{m.second, m.first * kLanes};
    });
    for (int64_t tap = 0; tap < lists_.cells(); ++tap) {
      if (lists_.count(tap) > 0) live_.push_back(tap);
    }
    group_blocks_ = blocks_of(g.group_channels());
  }

  // Images as [group][block of channels][image][cell][16].
  size_t workspace_bytes() const override {
    return sizeof(float) * g_.groups * group_blocks_ * chunk_ * x_cells_ * kLanes;
  }

  void run(CpuContext& context) const override {
    const float* x = context.in<float>(0);
    const float* dy = context.in<float>(1);
    float* dw = context.out<float>(0);
    float* vectors = reinterpret_cast<float*>(context.workspace.data());
    const int64_t x_image = g_.channels * x_cells_, y_image = g_.outputs * y_cells_;
    for (int64_t n = 0; n < g_.batch; n += chunk_) {
      const int64_t images = std::min(chunk_, g_.batch - n);
      turn_images(x + n * x_image, images, vectors, *context.pool);
      const Write write = n > 0 || context.accumulate ? Write::kAdd : Write::kOverwrite;
      parallel_for(*context.pool, g_.outputs, 1, [&](int64_t begin, int64_t end) {
        Scratch scratch{std::vector<float>(live_.size() * kTile),
                        std::vector<float>(lists_.cells() * small::kBlocks * kLanes)};
        for_rows(begin, end, g_.group_outputs(), [&](int64_t row, int64_t count, int64_t group) {
          for (int64_t block = 0; block < group_blocks_; block += small::kBlocks) {
            multiply(vectors, dy + n * y_image, images, row, count, group, block,
                     scratch.tiles.data());
            put(scratch, row, count, block, write, dw);
          }
        });
        loops().end_puts();
      });
    }
  }

 private:
  static constexpr int64_t kTile = kRows * small::kBlocks * kLanes;
  enum class Write : uint8_t { kOverwrite, kAdd };
  struct Scratch {
    std::vector<float> tiles;  // [live tap][row][channel]
    std::vector<float> line;   // [channel][tap] of one row
  };

  void turn_images(const float* x, int64_t images, float* vectors, ThreadPool& pool) const {
    const int64_t channels = g_.group_channels();
    parallel_for(pool, g_.groups * group_blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / group_blocks_, first = i % group_blocks_ * kLanes;
        for (int64_t n = 0; n < images; ++n) {
          lanes::lane_kernels<float>().to_lanes(
              x + (n * g_.channels + group * channels + first) * x_cells_, x_cells_,
              static_cast<int>(std::min<int64_t>(kLanes, channels - first)),
              static_cast<int>(x_cells_), vectors + (i * images + n) * x_cells_ * kLanes);
        }
      }
    });
  }

  void multiply(const float* vectors, const float* dy, int64_t images, int64_t row, int64_t count,
                int64_t group, int64_t block, float* tiles) const {
    small::Product p;
    p.scalars = dy + row * y_cells_;
    p.scalar_row = y_cells_;
    p.scalar_step = g_.outputs * y_cells_;
    p.vectors = vectors + (group * group_blocks_ + block) * images * x_cells_ * kLanes;
    p.vector_block = images * x_cells_ * kLanes;
    p.vector_step = x_cells_ * kLanes;
    p.depth = images;
    p.bias = nullptr;
    p.out_row = small::kBlocks * kLanes;
    p.out_block = kLanes;
    p.rows = count;
    p.blocks = std::min(small::kBlocks, group_blocks_ - block);
    for (size_t i = 0; i < live_.size(); ++i) {
      p.terms = lists_.of(live_[i]);
      p.term_count = lists_.count(live_[i]);
      p.out = tiles + i * kTile;
      loops().multiply(p);
    }
  }

  void put(Scratch& scratch, int64_t row, int64_t count, int64_t block, Write write,
           float* dw) const {
    const int64_t taps = lists_.cells(), first = block * kLanes;
    small::Spread spread;
    spread.tile = kTile;
    spread.live = live_.data();
    spread.live_count = static_cast<int64_t>(live_.size());
    spread.taps = taps;
    spread.channels = std::min(small::kBlocks * kLanes, g_.group_channels() - first);
    spread.line = scratch.line.data();
    for (int64_t r = 0; r < count; ++r) {
      if (!live_.empty()) spread.tiles = scratch.tiles.data() + r * small::kBlocks * kLanes;
      spread.to = dw + ((row + r) * g_.group_channels() + first) * taps;
      (write == Write::kAdd ? loops().add : loops().put)(spread);
    }
  }

  ConvGeometry g_;
  int64_t chunk_, x_cells_, y_cells_, group_blocks_;
  TermLists lists_;  // by tap
  std::vector<int64_t> live_;
};

// Products of cells and taps that don't meet padding, as a share of all.
double live_share(const Window& window) {
  double share = 1;
  for (int a = 0; a < window.axes(); ++a) {
    int64_t live = 0;
    for (int64_t o = 0; o < window.out[a]; ++o) {
      for (int64_t t = 0; t < window.kernel[a]; ++t) {
        const int64_t i = o * window.stride[a] - window.pad_begin[a] + t * window.dilation[a];
        live += i >= 0 && i < window.in[a] ? 1 : 0;
      }
    }
    share *= static_cast<double>(live) / static_cast<double>(window.out[a] * window.kernel[a]);
  }
  return share;
}

// More would make long lists, and an operand of a chunk that leaves the cache.
constexpr int64_t kMostCells = 64;

bool is_tiny(const Window& window) { return window.out_cells() <= 9 && window.in_cells() <= 36; }

// From measurements beside oneDNN on two cores with AVX-512: the larger the image, the better
// oneDNN. It is weak with strides and in single cells.
bool onednn_is_weak(const Window& window) {
  return window.out_cells() == 1 ||
         std::any_of(window.stride.begin(), window.stride.end(), [](int64_t s) { return s > 1; });
}

bool images_pay(const ConvGeometry& g) {
  constexpr int64_t kGoodBatch = 2 * kLanes;  // every scalar serves two vectors at least
  const double filled = static_cast<double>((g.batch + kGoodBatch - 1) / kGoodBatch * kGoodBatch) /
                        static_cast<double>(g.batch);
  const double against = onednn_is_weak(g.window) ? 2 : 1;
  return is_tiny(g.window) && live_share(g.window) * filled < 0.9 * against;
}

bool filter_pays(const ConvGeometry& g) {
  return is_tiny(g.window) && (g.window.taps() > 1 || onednn_is_weak(g.window));
}

using Decode = ConvGeometry (*)(const KernelRequest&);

KernelDef small_kernel(const char* domain, const char* op, Decode decode,
                       bool (*pays)(const ConvGeometry&)) {
  const auto geometry = [decode](auto&& applies) {
    return [=](const KernelRequest& request) { return applies(decode(request)); };
  };
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "conv.small";
  kernel.speed = Speed::kOptimised;
  kernel.declines = {
      unless_float32(),
      needs_images(),
      {"takes images and kernels of at most 64 cells", geometry([](const ConvGeometry& g) {
         return std::max({g.window.in_cells(), g.window.out_cells(), g.window.taps()}) > kMostCells;
       })},
      {"does not pay below 16 channels and outputs in a group", geometry([](const ConvGeometry& g) {
         return g.group_channels() < kLanes || g.group_outputs() < kLanes;
       }),
       RefusalKind::kSlow},
      {"does not pay for images of so many cells, or so few images",
       geometry([pays](const ConvGeometry& g) { return !pays(g); }), RefusalKind::kSlow}};
  return kernel;
}

}  // namespace

void register_conv_small(KernelRegistry& kernels) {
  KernelDef forward = small_kernel("", "Conv", ConvGeometry::forward, images_pay);
  forward.create = [](const KernelRequest& request) {
    return std::make_unique<SmallImages>(ConvGeometry::forward(request), Direction::kForward);
  };
  kernels.add(std::move(forward));
  KernelDef data = small_kernel(kDomain, "ConvGradData", ConvGeometry::grad_data, images_pay);
  data.create = [](const KernelRequest& request) {
    return std::make_unique<SmallImages>(ConvGeometry::grad_data(request), Direction::kGradData);
  };
  kernels.add(std::move(data));
  KernelDef filter =
      small_kernel(kDomain, "ConvGradFilter", ConvGeometry::grad_filter, filter_pays);
  filter.accumulates = true;
  filter.create = [](const KernelRequest& request) {
    return std::make_unique<SmallFilter>(ConvGeometry::grad_filter(request));
  };
  kernels.add(std::move(filter));
}

}  // namespace sardonyx::ops::conv
