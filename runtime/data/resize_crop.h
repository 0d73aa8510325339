// A picture brought to a fixed size: resized until it just covers it, then cut in the middle.
//
// Bit for bit what torchvision's Resize and CenterCrop do to a Pillow image: a triangle filter that
// widens where the picture shrinks (antialiasing), rows before columns, each pass rounded to bytes.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/image.h"

namespace sardonyx::runtime {

// `out` is [height, width, image.channels].
void resize_crop(const Image& image, int64_t height, int64_t width, std::span<uint8_t> out);

}  // namespace sardonyx::runtime
