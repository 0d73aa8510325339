#include "runtime/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "runtime/plot_svg.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

// Distinguishable with every kind of colour vision (Okabe and Ito).
constexpr const char* kTrainColour = "#0072b2";
constexpr const char* kTestColour = "#d55e00";
constexpr size_t kStepPoints = 400;

// Means over equal runs of neighbours: keeps the shape, drops the weight.
std::vector<std::pair<double, double>> thinned(
    const std::vector<std::pair<double, double>>& points) {
  const size_t stride = (points.size() + kStepPoints - 1) / kStepPoints;
  if (stride <= 1) return points;
  std::vector<std::pair<double, double>> result;
  for (size_t begin = 0; begin < points.size(); begin += stride) {
    const size_t end = std::min(begin + stride, points.size());
    double x = 0, y = 0;
    for (size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto count = static_cast<double>(end - begin);
    result.emplace_back(x / count, y / count);
  }
  return result;
}

void add(Curve& curve, double x, const std::optional<double>& y) {
  if (y) curve.points.emplace_back(x, *y);
}

}  // namespace

PlotFile::PlotFile(std::filesystem::path path, LogRecords before)
    : path_(std::move(path)), before_(std::move(before)) {
  step_loss_ = {"training, step by step", kTrainColour, {}, Curve::Look::kFaint};
  train_loss_ = {"training (epoch mean)", kTrainColour, {}};
  test_loss_ = {"test", kTestColour, {}};
  train_accuracy_ = {"training (epoch mean)", kTrainColour, {}};
  test_accuracy_ = {"test", kTestColour, {}};
  write();
}

void PlotFile::begin(const RunInfo& info) {
  info_ = info;
  auto epoch = before_.epochs.begin();
  for (const StepRecord& record : before_.steps) {
    step(record);
    for (; epoch != before_.epochs.end() && epoch->step <= record.step; ++epoch) take(*epoch);
  }
}

void PlotFile::step(const StepRecord& record) {
  const double epoch = static_cast<double>(record.epoch - 1) +
                       static_cast<double>(record.step_in_epoch) /
                           static_cast<double>(std::max<int64_t>(info_.steps_per_epoch, 1));
  step_loss_.points.emplace_back(epoch, record.loss);
}

void PlotFile::epoch(const EpochRecord& record) {
  take(record);
  rewrite();
}

void PlotFile::take(const EpochRecord& record) {
  // A run may end inside an epoch: the last step knows where.
  const double x = step_loss_.points.empty() ? static_cast<double>(record.epoch)
                                             : step_loss_.points.back().first;
  add(train_loss_, x, record.train_loss);
  add(test_loss_, x, record.test_loss);
  add(train_accuracy_, x, record.train_accuracy);
  add(test_accuracy_, x, record.test_accuracy);
  if (record.test_accuracy) best_ = std::max(best_.value_or(0.0), *record.test_accuracy);
  images_per_s_ = record.images_per_s;
}

void PlotFile::end(const RunSummary&) { rewrite(); }

void PlotFile::rewrite() {
  if (broken_) return;
  try {
    write();
  } catch (const Error& error) {
    broken_ = true;
    support::warning("{}; the run goes on without it", error.what());
  }
}

Picture PlotFile::picture() const {
  Picture picture;
  picture.title = info_.model;
  std::vector<std::string> facts;
  if (best_) facts.push_back(fmt::format("best test accuracy {:.2f} %", 100.0 * *best_));
  if (info_.parameters > 0) facts.push_back(count_str(info_.parameters) + " parameters");
  if (images_per_s_ > 0) {
    facts.push_back(fmt::format("{} {}/s", count_str(std::llround(images_per_s_)), info_.unit));
  }
  picture.subtitle = join(facts, "  ·  ");
  picture.x_title = "epoch";
  picture.x_end = static_cast<double>(std::max<int64_t>(info_.epochs, 1));
  Curve steps = step_loss_;
  steps.points = thinned(steps.points);
  picture.panels.push_back({"Loss", Panel::Unit::kNumber, {steps, train_loss_, test_loss_}});
  if (!train_accuracy_.points.empty() || !test_accuracy_.points.empty()) {
    picture.panels.push_back(
        {"Accuracy", Panel::Unit::kPercent, {train_accuracy_, test_accuracy_}});
  }
  return picture;
}

void PlotFile::write() const {
  const std::string svg = to_svg(picture());
  const bool page = path_.extension() == ".html";
  // Whole or not at all, but without waiting for the disk: the run goes on meanwhile.
  std::filesystem::path temporary = path_;
  temporary += ".part";
  std::ofstream file(temporary);
  file << (page ? svg_page(info_.model, svg) : svg);
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(temporary, path_, failed);
  if (file && !failed) return;
  std::filesystem::remove(temporary, failed);
  throw Error("--plot {}: can't be written", path_.string());
}

}  // namespace sardonyx::runtime
