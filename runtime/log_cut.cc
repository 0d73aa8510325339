#include "runtime/log_cut.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/mapped_file.h"
#include "graph/support/text.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

using Json = nlohmann::json;

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_number()) return found->get<double>();
  return std::numeric_limits<double>::quiet_NaN();
}

std::optional<double> known(const Json& json, const char* key) {
  const double value = number(json, key);
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

StepRecord step_record(const Json& json, int64_t steps_per_epoch) {
  StepRecord record;
  record.step = json.at("step").get<int64_t>();
  record.epoch = (record.step - 1) / steps_per_epoch + 1;
  record.step_in_epoch = (record.step - 1) % steps_per_epoch + 1;
  record.loss = number(json, "loss");
  record.lr = number(json, "lr");
  record.grad_norm = number(json, "grad_norm");
  record.skipped = json.value("skipped", false);
  record.images_per_s = number(json, "images_per_s");
  return record;
}

EpochRecord epoch_record(const Json& json) {
  EpochRecord record;
  record.epoch = json.at("epoch").get<int64_t>();
  record.step = json.at("step").get<int64_t>();
  record.lr = number(json, "lr");
  record.skipped_steps = json.value("skipped_steps", int64_t{0});
  record.train_loss = number(json, "train_loss");
  record.train_accuracy = known(json, "train_accuracy");
  record.test_loss = known(json, "test_loss");
  record.test_accuracy = known(json, "test_accuracy");
  record.test_top5_accuracy = known(json, "test_top5_accuracy");
  record.best = json.value("best", false);
  record.images_per_s = number(json, "images_per_s");
  record.seconds = number(json, "seconds");
  return record;
}

bool is_count(const Json& json) {
  return json.is_number_unsigned() &&
         json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
}

// What the readers of records take for granted.
bool is_record(const Json& json) {
  if (!json.is_object()) return false;
  if (json.contains("done")) return true;
  if (!json.contains("step")) return false;
  for (const char* key : {"step", "epoch", "skipped_steps"}) {
    if (json.contains(key) && !is_count(json.at(key))) return false;
  }
  for (const char* key : {"skipped", "best"}) {
    if (json.contains(key) && !json.at(key).is_boolean()) return false;
  }
  return true;
}

// Of a step or an epoch that the resumed run will not report again.
bool stays(const Json& json, const RunState& run) {
  if (json.contains("done")) return false;  // the end of a run that goes on now
  const auto step = json.at("step").get<int64_t>();
  // A run that ended inside an epoch reported its part of it.
  const bool part = json.contains("epoch") && run.position.position != 0;
  return step < run.step || (step == run.step && !part);
}

}  // namespace

LogRecords cut_log(const std::string& path, const RunState& run, int64_t steps_per_epoch) {
  LogRecords kept;
  if (!std::filesystem::exists(path)) {
    support::notice("--log {} is not there, it begins behind step {}", support::escaped(path),
                    run.step);
    return kept;
  }
  const auto file = support::MappedFile::open(path);
  const std::string_view text = as_text(file->bytes());
  size_t end = 0;
  int64_t last = 0;
  // A line without an end was torn when its writer died.
  for (size_t next; (next = text.find('\n', end)) != std::string_view::npos; end = next + 1) {
    const Json json = Json::parse(text.substr(end, next - end), nullptr, false);
    if (!is_record(json)) {
      throw Error("--log {}: byte {} begins no line of a log; choose another file",
                  support::escaped(path), end);
    }
    if (!stays(json, run)) break;
    last = json.at("step").get<int64_t>();
    if (json.contains("epoch")) {
      kept.epochs.push_back(epoch_record(json));
    } else {
      kept.steps.push_back(step_record(json, steps_per_epoch));
    }
  }
  if (last < run.step) {
    support::notice("--log {} ends at step {}, the run goes on behind step {}",
                    support::escaped(path), last, run.step);
  }
  std::filesystem::resize_file(path, end);
  return kept;
}

}  // namespace sardonyx::runtime
