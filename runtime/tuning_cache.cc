#include "runtime/tuning_cache.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/support/atomic_file.h"
#include "graph/support/env.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "ops/core/dnnl.h"

namespace sardonyx::runtime {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kNotOurs = "it is not one; another file is needed in SARDONYX_TUNING_CACHE";
constexpr const char* kFormat = "sardonyx_tuning";
constexpr int kFormatNumber = 1;
constexpr std::streamsize kMostBytes = 64 << 20;
constexpr double kMostSeconds = 3600;  // of a kernel

// "model name : AMD EPYC" of the first processor.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string processor_features() {
  const std::array<std::pair<const char*, bool>, 7> features{{
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512vnni", __builtin_cpu_supports("avx512vnni") != 0},
  }};
  std::string text;
  for (const auto& [name, supported] : features) {
    if (supported) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Of the times of requests by machine. Returns how many they were.
template <class Machines>
int leave_out_impossible(Machines& machines) {
  size_t count = 0;
  for (auto& [machine, requests] : machines) {
    for (auto& [request, times] : requests) {
      count += std::erase_if(times, [](const auto& time) {
        return !(time.second > 0 && time.second <= kMostSeconds);
      });
    }
  }
  return static_cast<int>(count);
}

}  // namespace

TuningCache::TuningCache(TuningFile file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  std::error_code failed;
  if (file_.folder == Folder::kGiven && !fs::is_directory(folder_of(file_.path), failed)) {
    support::notice(
        "SARDONYX_TUNING_CACHE is {}, but there is no folder {}: what is measured is not kept",
        file_.path.string(), folder_of(file_.path).string());
    file_.path.clear();
  }
  Content content = read();
  if (!content.fault.empty()) {
    support::notice("the tuning cache {} is ignored: {}", file_.path.string(), content.fault);
    return;
  }
  if (content.impossible > 0) {
    support::notice("the tuning cache {} has {} times that can't be, they count as unknown",
                    file_.path.string(), content.impossible);
  }
  known_ = std::move(content.machines[machine_]);
}

const TuningCache::Times* TuningCache::find(const std::string& request) const {
  const auto it = known_.find(request);
  return it == known_.end() ? nullptr : &it->second;
}

void TuningCache::put(const std::string& request, Times times) {
  fresh_[request] = times;
  known_[request] = std::move(times);
}

void TuningCache::save() {
  if (file_.path.empty() || fresh_.empty()) return;
  Content content = read();
  if (content.foreign) return;  // said when it was read
  for (auto& [request, times] : std::exchange(fresh_, {})) {
    content.machines[machine_][request] = std::move(times);
  }
  try {
    // The format comes first: what is left of a file that was cut off is still known as ours.
    const nlohmann::ordered_json whole = {{kFormat, kFormatNumber}, {"machines", content.machines}};
    const std::string text = whole.dump(1) + "\n";
    std::error_code failed;  // then the file can't be made, which is said
    if (file_.folder == Folder::kMade) fs::create_directories(folder_of(file_.path), failed);
    const std::array<std::string_view, 1> pieces{text};
    support::AtomicFile(file_.path, pieces).commit();
  } catch (const std::exception& error) {
    support::notice("the tuning cache is not kept: {}", error.what());
  }
}

TuningCache::Content TuningCache::read() const {
  Content content;
  std::error_code failed;
  const fs::path& file = file_.path;
  if (file.empty() || (!fs::exists(file, failed) && !failed)) return content;
  // Opening a pipe would wait for its writer.
  std::ifstream stream;
  if (fs::is_regular_file(file, failed)) stream.open(file, std::ios::binary | std::ios::ate);
  const std::streamsize size = stream.is_open() ? static_cast<std::streamsize>(stream.tellg()) : -1;
  if (size < 0 || size > kMostBytes) {
    content.foreign = true;
    content.fault = size < 0 ? "it can't be read" : "it is larger than any of ours";
    return content;
  }
  std::string text(static_cast<size_t>(size), '\0');
  stream.seekg(0).read(text.data(), size);
  try {
    const Json json = Json::parse(text);
    if (!json.is_object() || !json.contains(kFormat)) {
      content.foreign = true;
      content.fault = kNotOurs;
    } else if (json.at(kFormat) != kFormatNumber) {
      content.foreign = true;
      content.fault =
          fmt::format("it has the format {}, this is {}", json.at(kFormat).dump(), kFormatNumber);
    } else {
      content.machines = json.at("machines").get<Machines>();
      content.impossible = leave_out_impossible(content.machines);
    }
  } catch (const Json::exception&) {
    content.foreign = text.find(kFormat) == std::string::npos && !text.empty();
    content.fault = content.foreign ? kNotOurs : "it is damaged";
    content.machines.clear();
  }
  return content;
}

TuningFile tuning_cache_file() {
  if (const std::string& file = support::env("SARDONYX_TUNING_CACHE"); !file.empty()) {
    return {file, Folder::kGiven};
  }
  const std::string &cache = support::env("XDG_CACHE_HOME"), &home = support::env("HOME");
  if (!cache.empty()) return {fs::path(cache) / "sardonyx" / "tuning.json"};
  if (home.empty()) return {};
  return {fs::path(home) / ".cache" / "sardonyx" / "tuning.json"};
}

std::string tuning_machine(int threads) {
  return fmt::format("{}; {}; {} threads; oneDNN {}; sardonyx {}", processor_name(),
                     processor_features(), threads, ops::dnnl::version(), SARDONYX_VERSION);
}

}  // namespace sardonyx::runtime
