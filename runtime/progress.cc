#include "runtime/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarCells = 20;

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

int columns(std::FILE* terminal) {
  winsize size = {};
  const bool known = ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string cells(int64_t done, int64_t all) {
  const int64_t full = all > 0 ? std::clamp<int64_t>(kBarCells * done / all, 0, kBarCells) : 0;
  std::string bar(static_cast<size_t>(full), '=');
  if (full < kBarCells) bar += '>';
  bar.resize(kBarCells, ' ');
  return bar;
}

// fmt::print would throw when a terminal or the reader of a pipe has gone; the run goes on, and the
// stream remembers the error.
void put(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

std::string bar_line(const Progress& progress, int width) {
  const RunInfo& info = progress.info;
  const StepRecord& last = progress.last;
  std::vector<std::string> parts = {
      fmt::format("epoch {}/{}", last.epoch, info.epochs),
      fmt::format("[{}] {}/{}", cells(last.step_in_epoch, info.steps_per_epoch), last.step_in_epoch,
                  info.steps_per_epoch),
      "loss " + loss_str(progress.loss)};
  if (progress.accuracy) parts.push_back("accuracy " + percent(*progress.accuracy));
  parts.push_back(
      fmt::format("{} {}/s", count_str(std::llround(progress.images_per_s)), info.unit));
  parts.push_back("ETA " + duration_str(progress.seconds_left));
  std::string line;
  for (const std::string& part : parts) {
    if (static_cast<int>(line.size() + part.size()) + 2 >= width) break;
    if (!line.empty()) line += "  ";
    line += part;
  }
  return line;
}

std::string epoch_line(const RunInfo& info, const EpochRecord& record) {
  std::string line = fmt::format("epoch {:>{}}/{}  step {}  lr {:.4g}  train loss {}", record.epoch,
                                 std::to_string(info.epochs).size(), info.epochs, record.step,
                                 record.lr, loss_str(record.train_loss));
  if (record.train_accuracy) line += "  accuracy " + percent(*record.train_accuracy);
  if (record.skipped_steps > 0) line += fmt::format("  skipped {}", record.skipped_steps);
  if (record.test_loss) line += "  |  test loss " + loss_str(*record.test_loss);
  if (record.test_accuracy) line += "  accuracy " + percent(*record.test_accuracy);
  if (record.test_top5_accuracy) line += "  top-5 " + percent(*record.test_top5_accuracy);
  return line + fmt::format("  |  {} {}/s  {}", count_str(std::llround(record.images_per_s)),
                            info.unit, duration_str(record.seconds));
}

void ProgressBar::begin(const RunInfo& info) {
  progress_.info = info;
  began_ = Clock::now();
}

void ProgressBar::step(const StepRecord& record) {
  if (record.step_in_epoch == 1) loss_sum_ = accuracy_sum_ = speed_sum_ = 0, summed_ = taken_ = 0;
  ++summed_;
  if (!record.skipped) {
    ++taken_;
    loss_sum_ += record.loss;
    accuracy_sum_ += record.accuracy.value_or(0.0);
  }
  if (record.images_per_s > 0) speed_sum_ += 1.0 / record.images_per_s;
  progress_.last = record;
  if (taken_ > 0) progress_.loss = loss_sum_ / static_cast<double>(taken_);
  if (record.accuracy) progress_.accuracy = accuracy_sum_ / static_cast<double>(taken_);
  progress_.images_per_s = speed_sum_ > 0 ? static_cast<double>(summed_) / speed_sum_ : 0;
  const int64_t done_here = record.step - progress_.info.steps_before;
  progress_.seconds_left = seconds_since(began_) / static_cast<double>(done_here) *
                           static_cast<double>(progress_.info.total_steps - record.step);
  if (!visible_ || seconds_since(drawn_) >= kRedrawSeconds) {
    draw(bar_line(progress_, columns(terminal_)));
  }
}

void ProgressBar::evaluation_begins() {
  draw(bar_line(progress_, columns(terminal_) - 14) + "  evaluating");
}

void ProgressBar::draw(const std::string& line) {
  put(terminal_, "\r\x1b[K" + line);
  visible_ = true;
  drawn_ = Clock::now();
}

void ProgressBar::wipe() {
  if (!visible_) return;
  put(terminal_, "\r\x1b[K");
  visible_ = false;
}

void EpochLines::begin(const RunInfo& info) {
  info_ = info;
  printed_ = Clock::now();
}

void EpochLines::step(const StepRecord& record) {
  if (quiet_seconds_ <= 0 || seconds_since(printed_) < quiet_seconds_) return;
  put(file_,
      fmt::format("epoch {}/{}  step {}/{}  lr {:.4g}  loss {}  {} {}/s\n", record.epoch,
                  info_.epochs, record.step_in_epoch, info_.steps_per_epoch, record.lr,
                  loss_str(record.loss), count_str(std::llround(record.images_per_s)), info_.unit));
  printed_ = Clock::now();
}

void EpochLines::epoch(const EpochRecord& record) {
  put(file_, epoch_line(info_, record) + "\n");
  printed_ = Clock::now();
}

}  // namespace sardonyx::runtime
