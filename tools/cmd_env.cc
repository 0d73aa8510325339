// sardonyx env: what this program is made of, what it found, and the switches of the environment.
#include <fmt/core.h>
#include <google/protobuf/stubs/common.h>
#include <zlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph/support/env.h"
#include "graph/support/text.h"
#include "ops/core/dnnl.h"
#include "runtime/devices/cuda.h"
#include "runtime/devices/device.h"
#include "tools/command.h"
#include "tools/json_text.h"

namespace sardonyx::tools {

namespace {

using Json = nlohmann::ordered_json;

Json libraries() {
  const std::string onednn = ops::dnnl::version();
  return {{"onednn", onednn.empty() ? "not in this build" : onednn},
          {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
          {"zlib", zlibVersion()}};
}

Json devices() {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto cpu = runtime::make_device("cpu", cores);
  return Json::array({{{"name", "cpu"},
                       {"what", cpu->name()},
                       {"vector_floats", cpu->vector_floats()},
                       {"l2_bytes", cpu->l2_bytes()}}});
}

Json cuda() {
  const runtime::CudaFacts facts = runtime::cuda_facts();
  Json libraries = Json::object();
  for (const runtime::CudaFacts::Library& library : facts.libraries) {
    libraries[library.name] = {{"version", library.version}, {"missing", library.missing}};
  }
  return {{"built", facts.built},         {"runtime", facts.runtime}, {"driver", facts.driver},
          {"unavailable", facts.why_not}, {"libraries", libraries},   {"devices", facts.devices}};
}

Json switches() {
  Json list = Json::array();
  for (const support::EnvSwitch& entry : support::env_switches()) {
    list.push_back({{"name", entry.name},
                    {"value", entry.value},
                    {"default", entry.fallback},
                    {"set", entry.is_set},
                    {"help", entry.help}});
  }
  return list;
}

void print_cuda(const Json& cuda) {
  for (const Json& device : cuda["devices"]) fmt::print("  {}\n", device.get<std::string>());
  const auto reason = cuda["unavailable"].get<std::string>();
  if (!reason.empty()) fmt::print("  no CUDA device: {}\n", reason);
  if (!cuda["built"].get<bool>()) return;
  const auto driver = cuda["driver"].get<std::string>();
  fmt::print("\nCUDA\n  {:<10} {}\n  {:<10} {}\n", "runtime", cuda["runtime"].get<std::string>(),
             "driver", driver.empty() ? "none" : driver);
  for (const auto& [name, library] : cuda["libraries"].items()) {
    const auto version = library["version"].get<std::string>();
    fmt::print("  {:<10} {}\n", name,
               version.empty() ? library["missing"].get<std::string>() : version);
  }
}

void print_text(const Json& json) {
  fmt::print("sardonyx {}\n\nlibraries\n", json["version"].get<std::string>());
  for (const auto& [name, version] : json["libraries"].items()) {
    fmt::print("  {:<10} {}\n", name, version.get<std::string>());
  }
  fmt::print("\ndevices\n");
  for (const Json& device : json["devices"]) {
    fmt::print("  {}\n", device["what"].get<std::string>());
  }
  print_cuda(json["cuda"]);
  fmt::print("\nenvironment switches\n");
  for (const Json& entry : json["switches"]) {
    fmt::print("  {}={}{}\n      {}\n", entry["name"].get<std::string>(),
               support::escaped(entry["value"].get<std::string>()),
               entry["set"].get<bool>() ? "" : "  (default)", entry["help"].get<std::string>());
  }
}

}  // namespace

Action setup_env(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "JSON on stdout, nothing else");
  app.footer("Example:\n  sardonyx env");
  return [json] {
    const Json all = {{"version", SARDONYX_VERSION},
                      {"libraries", libraries()},
                      {"devices", devices()},
                      {"cuda", cuda()},
                      {"switches", switches()}};
    if (*json) {
      fmt::print("{}\n", json_text(all));
    } else {
      print_text(all);
    }
    return 0;
  };
}

}  // namespace sardonyx::tools
