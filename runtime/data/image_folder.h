// A folder of pictures whose sub-folders are the classes.
//
//   DIR/train/CLASS/**/*.png|jpg|jpeg and DIR/test/CLASS/... (or DIR/val/CLASS/...), or
//   DIR/CLASS/...
//
// Classes are numbered in the order of their names, those of the test part as in the training part.
// Every header is read when the folder is opened; the pixels of a sample only when it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

// What pictures are brought to (resize_crop.h).
struct ImageSize {
  int64_t channels = 0;  // 1 or 3
  int64_t height = 0;
  int64_t width = 0;
};

// `spec`: the value of --data, for messages. nullptr: no test part. Throws Error.
std::shared_ptr<const Dataset> open_image_folder(const std::string& spec, const std::string& folder,
                                                 Split split, const ImageSize& size);

// Whether a file of this name is taken for a picture: .png, .jpg or .jpeg, and not hidden.
bool is_image_name(const std::string& name);

}  // namespace sardonyx::runtime
