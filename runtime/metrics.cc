#include "runtime/metrics.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"

namespace sardonyx::runtime {

namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

std::string to_json(const StepRecord& record) {
  Json json;
  json["step"] = record.step;
  json["loss"] = record.loss;
  json["lr"] = record.lr;
  json["grad_norm"] = record.grad_norm;
  if (record.skipped) json["skipped"] = true;
  json["images_per_s"] = record.images_per_s;
  return json.dump();
}

std::string to_json(const EpochRecord& record) {
  Json json;
  json["epoch"] = record.epoch;
  json["step"] = record.step;
  json["lr"] = record.lr;
  if (record.skipped_steps > 0) json["skipped_steps"] = record.skipped_steps;
  json["train_loss"] = record.train_loss;
  json["train_accuracy"] = number(record.train_accuracy);
  json["test_loss"] = number(record.test_loss);
  json["test_accuracy"] = number(record.test_accuracy);
  if (record.test_top5_accuracy) json["test_top5_accuracy"] = *record.test_top5_accuracy;
  if (record.best) json["best"] = true;
  json["images_per_s"] = record.images_per_s;
  json["seconds"] = record.seconds;
  return json.dump();
}

std::string to_json(const RunSummary& summary) {
  Json json;
  json["done"] = summary.done;
  if (!summary.stopped.empty()) json["stopped"] = summary.stopped;
  json["step"] = summary.step;
  if (summary.skipped_steps > 0) json["skipped_steps"] = summary.skipped_steps;
  json["best_test_accuracy"] = number(summary.best_test_accuracy);
  if (summary.best_epoch) json["best_epoch"] = *summary.best_epoch;
  json["seconds_per_epoch"] = summary.seconds_per_epoch;
  json["devices"] = summary.devices;
  json["peak_bytes"] = summary.peak_bytes;
  json["planned_bytes"] = summary.planned_bytes;
  json["saved"] = summary.saved.empty() ? Json(nullptr) : Json(summary.saved);
  if (!summary.saved_data.empty()) json["saved_data"] = summary.saved_data;
  if (!summary.checkpoint.empty()) json["checkpoint"] = summary.checkpoint;
  if (!summary.saved_best.empty()) json["saved_best"] = summary.saved_best;
  if (!summary.saved_best_data.empty()) json["saved_best_data"] = summary.saved_best_data;
  return support::printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void JsonLines::try_line(const std::string& text) {
  if (broken_) return;
  broken_ = std::fwrite(text.data(), 1, text.size(), file_) != text.size() ||
            std::fputc('\n', file_) == EOF || std::fflush(file_) != 0;
  // Who stopped reading standard output knows it.
  if (!broken_ || (file_ == stdout && errno == EPIPE)) return;
  support::warning("can't write to {}: {}; the log ends here, the run goes on", name_,
                   std::strerror(errno));
}

LogFile::LogFile(const std::string& path, Begin begin)
    : JsonLines(std::fopen(path.c_str(), begin == Begin::kAnew ? "w" : "a")) {
  name_ = "--log " + path;
  if (file_ == nullptr) throw Error("can't write to {}: {}", name_, std::strerror(errno));
}

LogFile::~LogFile() { std::fclose(file_); }

size_t peak_rss_bytes() {
  // Not getrusage: its maximum is inherited from the process that started this one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace sardonyx::runtime
