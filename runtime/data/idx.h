// IDX files: MNIST, Fashion-MNIST, EMNIST (format: yann.lecun.com/exdb/mnist).
//
// Bytes 0, 0, type code, rank; then the dimensions as 32-bit and the elements, all big-endian. Gzip
// is found by content, whatever the name says. Headers are not believed: the file must hold exactly
// what they declare.
#pragma once

#include <string>

#include "graph/tensor.h"
#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

// Throws Error (file, offset, found, expected). Uncompressed uint8 and int8 data stays in the
// mapped file.
graph::Tensor read_idx(const std::string& path);

// Samples [N,...] and labels [N]. Throws Error also when the counts differ, when there are no
// samples, and when the two files look swapped.
Arrays read_idx_pair(const std::string& images, const std::string& labels);

}  // namespace sardonyx::runtime
