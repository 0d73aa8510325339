// The curves of a run as an SVG picture (or a page that holds it): loss above, accuracy below.
//
// Steps are shown as a faint line, thinned to a few hundred points, epochs as strong lines with
// marks. Needs no library and no script, so the file opens in every browser.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/log_cut.h"
#include "runtime/metrics.h"

namespace sardonyx::runtime {

struct Curve {
  std::string name;
  std::string colour;
  std::vector<std::pair<double, double>> points;  // x ascending; y that isn't finite is left out
  enum class Look : uint8_t { kFaint, kMarked } look = Look::kMarked;
};

struct Panel {
  std::string title;
  enum class Unit : uint8_t { kNumber, kPercent } unit = Unit::kNumber;
  std::vector<Curve> curves;  // curves without points are left out, also of the legend
};

struct Picture {
  std::string title, subtitle;
  std::string x_title;
  double x_begin = 0, x_end = 1;
  std::vector<Panel> panels;  // from top to bottom
};

// Round tick values inside [low, high], about `count` of them: steps of 1, 2, 2.5 or 5 times 10^k.
std::vector<double> ticks(double low, double high, int count);
std::string to_svg(const Picture& picture);

// Rewrites the picture after each epoch and at the end. A write that fails later is a warning.
class PlotFile final : public TrainListener {
 public:
  // `.html` gives a page, anything else an SVG; `before`: what a resumed run has behind it. Throws
  // Error when the file can't be written.
  explicit PlotFile(std::filesystem::path path, LogRecords before = {});
  void begin(const RunInfo& info) override;
  void step(const StepRecord& record) override;
  void epoch(const EpochRecord& record) override;
  void end(const RunSummary& summary) override;
  Picture picture() const;

 private:
  void write() const;
  void rewrite();
  void take(const EpochRecord& record);
  bool broken_ = false;
  std::filesystem::path path_;
  LogRecords before_;
  RunInfo info_;
  Curve step_loss_, train_loss_, test_loss_, train_accuracy_, test_accuracy_;
  std::optional<double> best_;
  double images_per_s_ = 0;
};

}  // namespace sardonyx::runtime
