// Collects the faults of a file, so that one run reports all of them.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

namespace sardonyx::graph {

class Faults {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    add_text(fmt::format(format, std::forward<Args>(args)...));
  }
  void add_text(std::string text);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // Throws Error "LABEL: N faults:" with one fault a line (the first 50).
  void throw_if_any(const std::string& label) const;

 private:
  std::vector<std::string> texts_;
  size_t count_ = 0;
};

}  // namespace sardonyx::graph
