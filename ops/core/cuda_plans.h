// Plans that a library made for fixed shapes, kept by what it was asked: a kernel declines by the
// answer and is made from it, and nothing is planned twice.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::ops {

class LibraryPlans {
 public:
  // What `make` returned (a unique_ptr to Plan) when it was first asked for `key`; null where it
  // threw Error, which is how a library refuses.
  template <class Plan, class Make>
  std::shared_ptr<const Plan> find(const std::string& key, const Make& make) {
    const auto known = plans_.find(key);
    if (known != plans_.end()) return std::static_pointer_cast<const Plan>(known->second);
    std::shared_ptr<const Plan> plan;
    try {
      plan = make();
    } catch (const Error&) {
      // Another kernel runs the node.
    }
    plans_.emplace(key, plan);
    return plan;
  }

 private:
  std::map<std::string, std::shared_ptr<const void>> plans_;
};

}  // namespace sardonyx::ops
