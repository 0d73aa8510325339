#include "runtime/checkpoint_manifest.h"

#include <zlib.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "runtime/json_name.h"

namespace sardonyx::runtime {

using Json = nlohmann::ordered_json;

void add_to(FileSum& sum, std::span<const std::byte> bytes) {
  sum.bytes += bytes.size();
  sum.crc32 = static_cast<uint32_t>(
      ::crc32_z(sum.crc32, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

namespace {

std::string hex(uint32_t value) { return fmt::format("{:08x}", value); }

FileSum sum_of(std::string_view text) {
  FileSum sum;
  add_to(sum, std::as_bytes(std::span(text)));
  return sum;
}

// --- the seal

constexpr std::string_view kSealBegin = ",\n  \"crc32\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr size_t kSealBytes = kSealBegin.size() + 8 + kSealEnd.size();

// `open`: a JSON object without its end.
std::string sealed(const std::string& open) {
  return open + std::string(kSealBegin) + hex(sum_of(open).crc32) + std::string(kSealEnd);
}

void check_seal(const std::string& text) {
  if (!text.ends_with(kSealEnd) || text.size() < kSealBytes) throw Error("it is cut short");
  if (text != sealed(text.substr(0, text.size() - kSealBytes))) {
    throw Error("its bytes were changed: the checksum at its end is another");
  }
}

// --- parts

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
double number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json to_json(const FileSum& sum) { return {{"bytes", sum.bytes}, {"crc32", hex(sum.crc32)}}; }
FileSum file_sum(const Json& json) {
  return {json.at("bytes").get<uint64_t>(),
          static_cast<uint32_t>(std::stoul(json.at("crc32").get<std::string>(), nullptr, 16))};
}

template <class Map>
Json table_to_json(const Map& table) {
  Json json = Json::object();
  for (const auto& [name, value] : table) json[to_json_name(name)] = to_json_name(value);
  return json;
}
KernelChoices::Table table(const Json& json) {
  KernelChoices::Table table;
  for (const auto& [name, value] : json.items()) {
    table[from_json_name(name)] = from_json_name(value.get<std::string>());
  }
  return table;
}

Json to_json(const KernelChoices& choices) {
  Json others = Json::object();
  for (const auto& [plan, table] : choices.others) others[plan] = table_to_json(table);
  return {{"block", choices.block},
          {"lanes", choices.lanes},
          {"nodes", table_to_json(choices.kernels)},
          {"other_plans", std::move(others)}};
}
KernelChoices kernel_choices(const Json& json) {
  KernelChoices choices{json.at("block").get<int64_t>(),
                        json.at("lanes").get<int64_t>(),
                        table(json.at("nodes")),
                        {}};
  for (const auto& [plan, different] : json.at("other_plans").items()) {
    choices.others[plan] = table(different);
  }
  return choices;
}

Json to_json(const BestEvaluation& best) {
  if (!best.epoch) return nullptr;
  return {{"epoch", *best.epoch},
          {"test_loss", number(best.loss)},
          {"test_accuracy", best.accuracy ? number(*best.accuracy) : Json(nullptr)}};
}
BestEvaluation best_evaluation(const Json& json) {
  if (json.is_null()) return {};
  const Json& accuracy = json.at("test_accuracy");
  return {json.at("epoch").get<int64_t>(), number(json.at("test_loss")),
          accuracy.is_null() ? std::nullopt : std::optional(accuracy.get<double>())};
}

// The step and the place in the sampler stand at the top, where people look.
Json to_json(const RunState& run) {
  const EpochSums& sums = run.sums;
  Json json;
  json["epoch_sums"] = {{"loss", number(sums.loss)},
                        {"weight", number(sums.weight)},
                        {"correct", number(sums.correct)},
                        {"lr", number(sums.lr)},
                        {"seconds", number(sums.seconds)},
                        {"steps", sums.steps},
                        {"rows", sums.rows},
                        {"skipped", sums.skipped}};
  json["seconds"] = number(run.seconds);
  json["skipped_steps"] = run.skipped;
  json["skipped_in_a_row"] = run.skipped_in_row;
  json["best"] = to_json(run.best);
  json["best_regular"] = to_json(run.best_regular);
  return json;
}
void read_run(const Json& json, RunState& run) {
  const Json& sums = json.at("epoch_sums");
  run.sums = {number(sums.at("loss")),        number(sums.at("weight")),
              number(sums.at("correct")),     number(sums.at("lr")),
              number(sums.at("seconds")),     sums.at("steps").get<int64_t>(),
              sums.at("rows").get<int64_t>(), sums.at("skipped").get<int64_t>()};
  run.seconds = number(json.at("seconds"));
  run.skipped = json.at("skipped_steps").get<int64_t>();
  run.skipped_in_row = json.at("skipped_in_a_row").get<int64_t>();
  run.best = best_evaluation(json.at("best"));
  run.best_regular = best_evaluation(json.at("best_regular"));
}

Manifest read(const Json& json) {
  Manifest manifest;
  manifest.format = json.at("format").get<int64_t>();
  if (manifest.format != kCheckpointFormat) return manifest;
  const Json& sampler = json.at("sampler");
  manifest.run.step = json.at("step").get<int64_t>();
  manifest.run.position = {sampler.at("epoch").get<int64_t>(),
                           sampler.at("position").get<int64_t>()};
  manifest.samples = sampler.at("samples").get<int64_t>();
  manifest.seed = json.at("generator").at("seed").get<uint64_t>();
  read_run(json.at("run"), manifest.run);
  const Json& model = json.at("model");
  manifest.model = from_json_name(model.at("name").get<std::string>());
  manifest.model_sum = file_sum(model);
  for (const auto& [flag, value] : json.at("config").items()) {
    manifest.config.emplace_back(from_json_name(flag), from_json_name(value.get<std::string>()));
  }
  manifest.schedule = from_json_name(json.at("schedule").get<std::string>());
  manifest.devices = json.at("devices").get<std::vector<std::string>>();
  manifest.threads = json.at("threads").get<int64_t>();
  manifest.cut = json.at("cut").get<Cut>();
  manifest.kernels = kernel_choices(json.at("kernels"));
  for (const auto& [name, sum] : json.at("files").items()) manifest.files[name] = file_sum(sum);
  return manifest;
}

}  // namespace

std::string sum_str(const FileSum& sum) {
  return fmt::format("crc32 {} of {} bytes", hex(sum.crc32), sum.bytes);
}

std::string to_text(const Manifest& manifest) {
  const RunState& run = manifest.run;
  Json json;
  json["format"] = manifest.format;
  json["version"] = SARDONYX_VERSION;
  json["step"] = run.step;
  json["epoch"] = run.position.epoch + (run.position.position > 0 ? 1 : 0);  // of that step
  json["sampler"] = {{"epoch", run.position.epoch},
                     {"position", run.position.position},
                     {"samples", manifest.samples}};
  json["generator"] = {{"kind", "counter"}, {"seed", manifest.seed}, {"step", run.step}};
  json["run"] = to_json(run);
  json["model"] = to_json(manifest.model_sum);
  json["model"]["name"] = to_json_name(manifest.model);
  json["config"] = table_to_json(manifest.config);
  json["schedule"] = to_json_name(manifest.schedule);
  json["devices"] = manifest.devices;
  json["threads"] = manifest.threads;
  json["cut"] = manifest.cut;
  json["kernels"] = to_json(manifest.kernels);
  json["files"] = Json::object();
  for (const auto& [name, sum] : manifest.files) json["files"][name] = to_json(sum);
  std::string text = json.dump(2);
  text.resize(text.rfind("\n}"));
  return sealed(text);
}

Manifest parse_manifest(const std::string& text) {
  check_seal(text);
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error("it is no manifest: {}", error.what());
  } catch (const std::logic_error&) {  // a checksum that is no number
    throw Error("it is no manifest: a checksum is not hexadecimal");
  }
}

}  // namespace sardonyx::runtime
