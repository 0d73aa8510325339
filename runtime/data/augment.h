// Random crops and flips of training images.
//
// What happens to a sample is a function of (seed, epoch, index) alone: it doesn't depend on
// batches, threads or processes, and a resumed run repeats it. It works on stored pixels, before
// scaling and normalisation, so the border is black in an image of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

enum class Flip : uint8_t { kNever, kHorizontal };

struct Augment {
  int64_t crop =
      0;  // the image is padded by so many zeros on each side, then cut at a random place
  Flip flip = Flip::kNever;  // kHorizontal: with probability 1/2
  bool any() const { return crop > 0 || flip != Flip::kNever; }
};

// "crop:4,flip", in any order. Throws Error.
Augment parse_augment(const std::string& text);

// Throws Error unless the samples are images whose axes are known.
std::shared_ptr<const Dataset> augment(std::shared_ptr<const Dataset> data, const Augment& options,
                                       uint64_t seed);

}  // namespace sardonyx::runtime
