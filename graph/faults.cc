#include "graph/faults.h"

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

constexpr size_t kMostShown = 50;

}  // namespace

void Faults::add_text(std::string text) {
  ++count_;
  if (texts_.size() < kMostShown) texts_.push_back(std::move(text));
}

void Faults::throw_if_any(const std::string& label) const {
  if (empty()) return;
  std::string message =
      fmt::format("{}: {} {} in the model:", label, count_, count_ == 1 ? "fault" : "faults");
  for (const std::string& text : texts_) message += "\n  " + text;
  if (count_ > texts_.size()) message += fmt::format("\n  ... and {} more", count_ - texts_.size());
  throw Error(std::move(message));
}

}  // namespace sardonyx::graph
