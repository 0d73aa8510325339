// Two passes over the part of the picture that the cut needs.
#include "runtime/data/resize_crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/isa.h"
#include "runtime/data/resize_loops.h"

namespace sardonyx::runtime {
namespace {

// Pixels [begin, begin + count) of the resized picture along one axis.
struct Cut {
  int64_t begin = 0;
  int64_t count = 0;
};

struct Taps {
  std::vector<Window> windows;  // one per pixel of the cut
  std::vector<int32_t> weights;
  // The source pixels that the windows cover.
  int64_t begin() const { return windows.front().begin; }
  int64_t end() const { return windows.back().begin + windows.back().count; }
};

Taps make_taps(int64_t source, int64_t target, const Cut& cut) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double widen = std::max(scale, 1.0);
  Taps taps;
  std::vector<double> exact;
  for (int64_t i = 0; i < cut.count; ++i) {
    const double centre = (static_cast<double>(cut.begin + i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(centre - widen + 0.5));
    const int64_t end = std::min(source, static_cast<int64_t>(centre + widen + 0.5));
    exact.clear();
    double sum = 0;
    for (int64_t x = begin; x < end; ++x) {
      const double distance = std::abs((static_cast<double>(x) - centre + 0.5) * (1.0 / widen));
      exact.push_back(std::max(1.0 - distance, 0.0));
      sum += exact.back();
    }
    taps.windows.push_back({begin, end - begin, static_cast<int64_t>(taps.weights.size())});
    for (const double weight : exact) {
      taps.weights.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << kWeightBits)));
    }
  }
  return taps;
}

const ResizeLoops& loops() {
  static const ResizeLoops& best =
      ops::best_copy(baseline::resize_loops(), avx2::resize_loops(), avx512::resize_loops());
  return best;
}

void resize(const Image& image, const Taps& across, const Taps& down, std::span<uint8_t> out) {
  const size_t length = across.windows.size() * static_cast<size_t>(image.channels);
  const size_t count = static_cast<size_t>(down.end() - down.begin());
  // One more byte, as the loop across may write it.
  const auto rows = std::make_unique_for_overwrite<uint8_t[]>(count * length + 1);
  const auto resize_row = image.channels == 1 ? loops().across1 : loops().across3;
  const int64_t row_bytes = image.width * image.channels;
  for (size_t y = 0; y < count; ++y) {
    const int64_t source = (down.begin() + static_cast<int64_t>(y)) * row_bytes;
    resize_row(&image.pixels[static_cast<size_t>(source)], across.windows.data(),
               across.windows.size(), across.weights.data(), &rows[y * length]);
  }
  uint8_t* to = out.data();
  for (const Window& window : down.windows) {
    const size_t first = static_cast<size_t>(window.begin - down.begin());
    loops().down(&rows[first * length], length, window.count, &down.weights[window.weights], to);
    to += length;
  }
}

// The middle; where it falls between two pixels, the even one of them.
Cut middle(int64_t size, int64_t wanted) {
  const int64_t half = (size - wanted) / 2;
  const bool between = (size - wanted) % 2 != 0;
  return {between && half % 2 != 0 ? half + 1 : half, wanted};
}

}  // namespace

void resize_crop(const Image& image, int64_t height, int64_t width, std::span<uint8_t> out) {
  CHECK(out.size() == static_cast<size_t>(height * width * image.channels));
  // The axis that is the shorter one, measured by the target, becomes as long as it.
  const bool narrow = image.width * height <= image.height * width;
  const int64_t full_width = narrow ? width : image.width * height / image.height;
  const int64_t full_height = narrow ? image.height * width / image.width : height;
  const Cut across = middle(full_width, width);
  const Cut down = middle(full_height, height);
  if (full_width != image.width || full_height != image.height) {
    return resize(image, make_taps(image.width, full_width, across),
                  make_taps(image.height, full_height, down), out);
  }
  const size_t length = static_cast<size_t>(width * image.channels);
  for (int64_t y = 0; y < height; ++y) {
    const int64_t pixel = (down.begin + y) * image.width + across.begin;
    std::memcpy(&out[static_cast<size_t>(y) * length],
                &image.pixels[static_cast<size_t>(pixel * image.channels)], length);
  }
}

}  // namespace sardonyx::runtime
