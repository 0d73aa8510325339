#include "runtime/shared_processor.h"

#include <algorithm>
#include <cmath>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "runtime/devices/cores.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

namespace {

// What daemons take on an idle machine is less.
constexpr double kLeastShare = 0.85;
constexpr std::chrono::seconds kWatched(3);

}  // namespace

std::string shared_processor_text(int threads, int replicas, const ProcessorTime& time) {
  const double share = time.share();
  if (share >= kLeastShare || threads > static_cast<int>(usable_cores().size())) return "";
  std::string text = fmt::format(
      "other programs use the processor: {} thread{} got {:.0f} % of the time {} could have run",
      threads, threads == 1 ? "" : "s", 100 * share, threads == 1 ? "it" : "they");
  const int fewer = std::max(1, static_cast<int>(std::floor(threads * share)));
  if (fewer < threads && fewer >= replicas) {
    text += fmt::format("; --threads {} may be faster", fewer);
  }
  return text;
}

void SharedProcessorNotice::begin(const RunInfo&) {
  start_ = std::chrono::steady_clock::now();
  clock_.emplace(session_.thread_ids());
}

void SharedProcessorNotice::step(const StepRecord&) {
  if (!clock_ || std::chrono::steady_clock::now() - start_ < kWatched) return;
  const std::string text =
      shared_processor_text(session_.threads(), session_.replicas(), clock_->elapsed());
  if (!text.empty()) support::notice("{}", text);
  clock_.reset();
}

}  // namespace sardonyx::runtime
