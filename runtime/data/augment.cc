// A row of pixels is moved as a whole: shifted by a memcpy, mirrored pixel by pixel.
#include "runtime/data/augment.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "graph/support/error.h"
#include "runtime/data/random.h"

namespace sardonyx::runtime {
namespace {

// planes x height x width pixels of `bytes` bytes each (CHW: planes = channels; HWC: one plane of
// fat pixels).
struct Geometry {
  int64_t planes = 1;
  int64_t height = 0;
  int64_t width = 0;
  int64_t pixel = 0;
};

Geometry geometry_of(const DatasetInfo& info) {
  const std::vector<int64_t>& s = info.sample.shape;
  int64_t element = static_cast<int64_t>(graph::dtype_size(info.sample.dtype));
  switch (info.axes) {
    case ImageAxes::kHw:
      return {1, s[0], s[1], element};
    case ImageAxes::kChw:
      return {s[0], s[1], s[2], element};
    case ImageAxes::kHwc:
      return {1, s[0], s[1], s[2] * element};
    case ImageAxes::kUnknown:
      break;
  }
  throw Error(
      "{}: --augment needs images, but the axes of samples of shape {} are not known. If they are "
      "images, say --data-layout nchw or nhwc",
      info.name, graph::shape_str(s));
}

// The usual sizes are known to the compiler.
template <int kBytes>
void mirror_pixels(const std::byte* first, int64_t count, std::byte* last) {
  for (int64_t x = 0; x < count; ++x) {
    std::memcpy(last - x * kBytes, first + x * kBytes, kBytes);
  }
}

class AugmentedDataset final : public Dataset {
 public:
  AugmentedDataset(std::shared_ptr<const Dataset> data, const Augment& options, uint64_t seed)
      : Dataset(data->info()),
        data_(std::move(data)),
        options_(options),
        seed_(seed),
        geometry_(geometry_of(info_)) {}

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    ScratchRow scratch(room.size());
    std::span<const std::byte> from = data_->sample(pick, scratch.bytes());
    RandomSequence random(data_stream(seed_, Purpose::kAugment, pick.epoch), pick.index);
    int64_t down = offset(random);
    int64_t right = offset(random);
    bool mirror = options_.flip == Flip::kHorizontal && random.below(2) == 1;
    int64_t row_bytes = geometry_.width * geometry_.pixel;
    for (int64_t plane = 0; plane < geometry_.planes; ++plane) {
      for (int64_t y = 0; y < geometry_.height; ++y) {
        std::byte* to = room.data() + (plane * geometry_.height + y) * row_bytes;
        int64_t source = y + down;
        if (source < 0 || source >= geometry_.height) {
          std::memset(to, 0, static_cast<size_t>(row_bytes));
        } else {
          move_row(from.data() + (plane * geometry_.height + source) * row_bytes, right, mirror,
                   to);
        }
      }
    }
    return room;
  }

  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    return data_->label(index, room);
  }
  const graph::Tensor* labels() const override { return data_->labels(); }

 private:
  // In [-crop, crop].
  int64_t offset(RandomSequence& random) const {
    uint64_t places = static_cast<uint64_t>(2 * options_.crop + 1);
    return static_cast<int64_t>(random.below(places)) - options_.crop;
  }

  void move_row(const std::byte* from, int64_t right, bool mirror, std::byte* to) const {
    int64_t width = geometry_.width;
    int64_t pixel = geometry_.pixel;
    int64_t begin = std::clamp<int64_t>(-right, 0, width);
    int64_t end = std::clamp<int64_t>(width - right, 0, width);
    if (mirror) {
      std::memset(to, 0, static_cast<size_t>(width * pixel));
      // Pixel x of the cut stands at width - 1 - x.
      const std::byte* first = from + (begin + right) * pixel;
      std::byte* last = to + (width - 1 - begin) * pixel;
      switch (pixel) {
        case 1:
          return mirror_pixels<1>(first, end - begin, last);
        case 3:
          return mirror_pixels<3>(first, end - begin, last);
        case 4:
          return mirror_pixels<4>(first, end - begin, last);
        default:
          for (int64_t x = 0; x < end - begin; ++x) {
            std::memcpy(last - x * pixel, first + x * pixel, static_cast<size_t>(pixel));
          }
      }
      return;
    }
    std::memset(to, 0, static_cast<size_t>(begin * pixel));
    if (begin < end) {
      std::memcpy(to + begin * pixel, from + (begin + right) * pixel,
                  static_cast<size_t>((end - begin) * pixel));
    }
    int64_t filled = std::max(begin, end);
    std::memset(to + filled * pixel, 0, static_cast<size_t>((width - filled) * pixel));
  }

  std::shared_ptr<const Dataset> data_;
  Augment options_;
  uint64_t seed_;
  Geometry geometry_;
};

}  // namespace

Augment parse_augment(const std::string& text) {
  Augment result;
  std::string_view rest = text;
  while (true) {
    size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    if (word == "flip") {
      result.flip = Flip::kHorizontal;
    } else if (word.starts_with("crop:")) {
      std::string_view number = word.substr(5);
      auto [stop, code] = std::from_chars(number.begin(), number.end(), result.crop);
      if (code != std::errc() || stop != number.end() || result.crop < 1 || result.crop > 1024) {
        throw Error("--augment {}: crop takes a number of pixels from 1 to 1024, as in crop:4",
                    text);
      }
    } else {
      throw Error("--augment {}: \"{}\" is unknown, expected crop:PIXELS and flip", text, word);
    }
    if (comma == rest.npos) return result;
    rest.remove_prefix(comma + 1);
  }
}

std::shared_ptr<const Dataset> augment(std::shared_ptr<const Dataset> data, const Augment& options,
                                       uint64_t seed) {
  if (!options.any()) return data;
  return std::make_shared<AugmentedDataset>(std::move(data), options, seed);
}

}  // namespace sardonyx::runtime
