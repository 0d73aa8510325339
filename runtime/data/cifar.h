// CIFAR-10 and CIFAR-100, binary version (cs.toronto.edu/~kriz/cifar.html).
//
// A record is one label byte (CIFAR-100: coarse, then fine) and 3072 bytes of pixels, planes R, G,
// B of 32 x 32. All sizes are checked before any memory is taken; every label is checked.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

// Samples uint8 [N,3,32,32], labels uint8 [N]; the files are joined in the given order. Throws
// Error.
Arrays read_cifar10(const std::vector<std::string>& paths);
// `labels` are the 100 fine classes, `coarse_labels` the 20 coarse ones.
Arrays read_cifar100(const std::vector<std::string>& paths);

}  // namespace sardonyx::runtime
