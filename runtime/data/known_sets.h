// The data sets with a name: fashion-mnist, mnist, cifar10, cifar100.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/data/open.h"

namespace sardonyx::runtime {

// nullptr: `name` is none of them. Throws Error when files are missing (which, where, what provides
// them) or damaged.
std::shared_ptr<const Dataset> open_known_set(const std::string& name, Split split,
                                              const OpenOptions& options);

}  // namespace sardonyx::runtime
