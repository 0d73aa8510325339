// A node that breaks a constraint of its operator. The number is that on the plate of the room: for
// whoever reads the code or a test, not for the message, which says in words what is wrong.
#pragma once

#include <string>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::ops {

class ConstraintError : public Error {
 public:
  template <class... Args>
  explicit ConstraintError(std::string constraint, fmt::format_string<Args...> format,
                           Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)),
        constraint_(std::move(constraint)) {}

  const std::string& constraint() const { return constraint_; }  // "C2"

 private:
  std::string constraint_;
};

}  // namespace sardonyx::ops
