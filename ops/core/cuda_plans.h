// Plans that a library made for fixed shapes, kept by what it was asked: a kernel declines by the
// answer and is made from it, and nothing is planned twice.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::ops {

template <class Plan>
struct LibraryAnswer {
  std::shared_ptr<const Plan> plan;  // null: the library refuses
  std::string refusal;               // then its words
};

class LibraryPlans {
 public:
  // What `make` returned (a unique_ptr to Plan) when it was first asked for `key`. It throws Error
  // where the library refuses, whatever the reason.
  template <class Plan, class Make>
  LibraryAnswer<Plan> find(const std::string& key, const Make& make) {
    auto known = answers_.find(key);
    if (known == answers_.end()) {
      LibraryAnswer<void> answer;
      try {
        answer.plan = std::shared_ptr<const Plan>(make());
      } catch (const Error& error) {
        answer.refusal = error.what();
      }
      known = answers_.emplace(key, std::move(answer)).first;
    }
    return {std::static_pointer_cast<const Plan>(known->second.plan), known->second.refusal};
  }

 private:
  std::map<std::string, LibraryAnswer<void>> answers_;
};

}  // namespace sardonyx::ops
