// sardonyx ops: what is known about each operator, from its OpDef and its kernels.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/kernel.h"
#include "runtime/text.h"
#include "tools/command.h"

namespace sardonyx::tools {

namespace {

using Json = nlohmann::ordered_json;
using ops::Gradient;
using ops::KernelDef;
using ops::OpDef;

std::string versions(const OpDef& op) {
  if (op.domain == ops::kDomain) return "own";
  return op.since.empty() ? "-" : fmt::format("{}", fmt::join(op.since, " "));
}

std::string gradient_text(const OpDef& op) {
  if (op.spelling) return "yes: that of the operators it is read as";
  const Gradient& gradient = op.gradient;
  switch (gradient.kind) {
    case Gradient::Kind::kRule:
      return "yes";
    case Gradient::Kind::kZero:
      return "zero: " + gradient.reason;
    case Gradient::Kind::kNone:
      return "none: " + gradient.reason;
    case Gradient::Kind::kMissing:
      break;
  }
  return "missing";
}

const char* speed_name(ops::Speed speed) {
  switch (speed) {
    case ops::Speed::kReference:
      return "reference";
    case ops::Speed::kPlain:
      return "plain";
    case ops::Speed::kOptimised:
      return "optimised";
    case ops::Speed::kBest:
      return "best";
  }
  return "";
}

const char* layouts_name(ops::Layouts layouts) {
  switch (layouts) {
    case ops::Layouts::kPlain:
      return "plain";
    case ops::Layouts::kSameAll:
      return "any, all alike";
    case ops::Layouts::kLanes:
      return "image lanes";
    case ops::Layouts::kChannelsLast:
    case ops::Layouts::kChannelsFollow:
      return "channels last";
    case ops::Layouts::kAny:
      return "any";
  }
  return "";
}

constexpr ops::Device kDevices[] = {ops::Device::kCpu, ops::Device::kCuda};

const char* device_name(ops::Device device) { return device == ops::Device::kCpu ? "cpu" : "cuda"; }

std::vector<const KernelDef*> kernels_of(const OpDef& op, ops::Device device) {
  return ops::KernelRegistry::get(device).find(op.domain, op.name);
}

// Of all devices.
std::vector<const KernelDef*> kernels_of(const OpDef& op) {
  std::vector<const KernelDef*> kernels;
  for (const ops::Device device : kDevices) {
    const auto own = kernels_of(op, device);
    kernels.insert(kernels.end(), own.begin(), own.end());
  }
  return kernels;
}

// A view runs everywhere: there is nothing to run. A spelling runs as the operators it stands for,
// all of which the CPU has.
bool runs_on(const OpDef& op, ops::Device device) {
  if (op.spelling) return device == ops::Device::kCpu;
  return op.view || !kernels_of(op, device).empty();
}

bool has_cuda() { return !ops::KernelRegistry::get(ops::Device::kCuda).all().empty(); }

Json ports(const std::vector<ops::Port>& ports) {
  static constexpr const char* kPresence[] = {"required", "optional", "variadic"};
  Json list = Json::array();
  for (const ops::Port& port : ports) {
    Json json = {{"name", port.name}, {"presence", kPresence[static_cast<int>(port.presence)]}};
    if (!port.no_gradient.empty()) json["no_gradient"] = port.no_gradient;
    list.push_back(std::move(json));
  }
  return list;
}

Json to_json(const OpDef& op) {
  static constexpr const char* kGradient[] = {"missing", "rule", "zero", "none"};
  Json json = {{"name", op.name}, {"domain", op.domain}, {"doc", op.doc}, {"since", op.since}};
  json["inputs"] = ports(op.inputs);
  json["outputs"] = ports(op.outputs);
  json["attributes"] = Json::object();
  for (const ops::AttributeDef& attribute : op.attributes) {
    json["attributes"][attribute.name] = attribute.doc;
  }
  json["gradient"] = {
      {"kind", op.spelling ? "standard_form" : kGradient[static_cast<int>(op.gradient.kind)]},
      {"reason", op.gradient.reason}};
  json["spelling"] = op.spelling;
  json["view"] = op.view;
  json["devices"] = Json::array();
  for (const ops::Device device : kDevices) {
    if (runs_on(op, device)) json["devices"].push_back(device_name(device));
  }
  json["kernels"] = Json::array();
  for (const KernelDef* kernel : kernels_of(op)) {
    json["kernels"].push_back({{"name", kernel->name},
                               {"device", device_name(kernel->device)},
                               {"speed", speed_name(kernel->speed)},
                               {"layouts", layouts_name(kernel->layouts)},
                               {"accumulates", kernel->accumulates},
                               {"declines", ops::decline_sentences(*kernel)}});
  }
  return json;
}

void print_ports(const char* title, const std::vector<ops::Port>& ports) {
  fmt::print("\n{}\n", title);
  for (const ops::Port& port : ports) {
    const char* mark = port.presence == ops::Presence::kOptional   ? " (optional)"
                       : port.presence == ops::Presence::kVariadic ? " ..."
                                                                   : "";
    fmt::print("  {}{}{}\n", port.name, mark,
               port.no_gradient.empty() ? "" : "  no gradient: " + port.no_gradient);
  }
}

void print_one(const OpDef& op) {
  fmt::print("{}  {}\n", ops::op_label(op.domain, op.name), op.doc);
  fmt::print("\nversions  {}\ngradient  {}\n", versions(op), gradient_text(op));
  print_ports("inputs", op.inputs);
  print_ports("outputs", op.outputs);
  if (!op.attributes.empty()) fmt::print("\nattributes\n");
  for (const ops::AttributeDef& attribute : op.attributes) {
    fmt::print("  {:<20} {}\n", attribute.name, attribute.doc);
  }
  fmt::print(
      "\nkernels (of a device the fastest first; the first that accepts runs, below each why it "
      "may "
      "decline)\n");
  if (op.view) fmt::print("  none needed: the output is the input under another shape\n");
  if (op.spelling) fmt::print("  those of the operators it is read as: {}\n", op.doc);
  for (const KernelDef* kernel : kernels_of(op)) {
    fmt::print("  {:<28} {}, {}, layout {}{}\n", kernel->name, device_name(kernel->device),
               speed_name(kernel->speed), layouts_name(kernel->layouts),
               kernel->accumulates ? ", adds in place" : "");
    for (const ops::Refusal& refusal : kernel->declines) fmt::print("    {}\n", refusal.sentence);
  }
  if (has_cuda() && !op.spelling && !runs_on(op, ops::Device::kCuda)) {
    fmt::print("  none for CUDA devices: there it runs on the CPU, with --fallback cpu\n");
  }
}

void print_table(const std::vector<const OpDef*>& all) {
  const bool cuda = has_cuda();
  const auto row = [&](const std::string& name, const std::string& versions, const char* gradient,
                       const char* on_cuda, const std::string& kernels) {
    fmt::print("{:<34} {:<22} {:<8} ", name, versions, gradient);
    if (cuda) fmt::print("{:<4} ", on_cuda);
    fmt::print("{}\n", kernels);
  };
  row("operator", "versions", "gradient", "cuda", "kernels");
  for (const OpDef* op : all) {
    std::vector<std::string> kernels;
    for (const KernelDef* kernel : kernels_of(*op)) kernels.push_back(kernel->name);
    static constexpr const char* kGradient[] = {"missing", "yes", "zero", "none"};
    row(ops::op_label(op->domain, op->name), versions(*op),
        op->spelling ? "yes" : kGradient[static_cast<int>(op->gradient.kind)],
        op->spelling                       ? "-"
        : runs_on(*op, ops::Device::kCuda) ? "yes"
                                           : "no",
        op->view       ? "view"
        : op->spelling ? "read as: " + op->doc
                       : runtime::join(kernels));
  }
}

// What the kernels beside the reference decline, once for all operators whose kernels of a name
// agree.
void print_refusals(const std::vector<const OpDef*>& all) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::vector<std::string>> users;
  for (const OpDef* op : all) {
    for (const KernelDef* kernel : kernels_of(*op)) {
      if (kernel->speed == ops::Speed::kReference) continue;
      users[{kernel->name, ops::decline_sentences(*kernel)}].push_back(
          ops::op_label(op->domain, op->name));
    }
  }
  fmt::print("\nwhat the kernels beside NAME.ref decline\n");
  for (const auto& [kernel, operators] : users) {
    const auto& [name, sentences] = kernel;
    fmt::print("  {:<28} {}\n", name, runtime::join(operators));
    for (const std::string& sentence : sentences) fmt::print("    {}\n", sentence);
  }
}

// "Conv", "com.microsoft::Gelu" or, as node lists write it, "com.microsoft.Gelu"; "ai.onnx" may be
// said of standard operators.
bool is_full_name(const OpDef& op, const std::string& name) {
  const std::string domain = op.domain.empty() ? "ai.onnx" : op.domain;
  return ops::op_label(op.domain, op.name) == name || domain + "::" + op.name == name ||
         domain + "." + op.name == name;
}

// By name, whatever the case of its letters and the domain.
std::vector<const OpDef*> find_ops(const std::string& name) {
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::vector<const OpDef*> found;
  std::vector<std::string> names;
  for (const OpDef* op : ops::OpRegistry::get().all()) {
    names.push_back(op->name);
    if (lower(op->name) == lower(name) || is_full_name(*op, name)) {
      found.push_back(op);
    }
  }
  if (found.empty()) {
    const std::vector<std::string> near = graph::misspelt(name, names);
    throw Error(
        "operator {} is not supported{}; `sardonyx ops` lists what there is", name,
        near.empty() ? "" : fmt::format(" (did you mean {}?)", runtime::join(near, " or ")));
  }
  return found;
}

int run(const std::string& name, bool json) {
  const std::vector<const OpDef*> chosen =
      name.empty() ? ops::OpRegistry::get().all() : find_ops(name);
  if (json) {
    Json list = Json::array();
    for (const OpDef* op : chosen) list.push_back(to_json(*op));
    fmt::print("{}\n", list.dump());
  } else if (name.empty()) {
    print_table(chosen);
    print_refusals(chosen);
    const auto on_cuda = std::ranges::count_if(
        chosen, [](const OpDef* op) { return runs_on(*op, ops::Device::kCuda); });
    fmt::print("\n{} operators{}; `sardonyx ops NAME` tells more about one\n", chosen.size(),
               has_cuda() ? fmt::format(", {} of them on CUDA devices", on_cuda) : "");
  } else {
    for (const OpDef* op : chosen) print_one(*op);
  }
  return 0;
}

}  // namespace

Action setup_ops(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  app.add_option("NAME", *name, "one operator, all of it")->option_text(" ");
  app.add_flag("--json", *json, "JSON on stdout, nothing else");
  app.footer("Example:\n  sardonyx ops Conv");
  return [name, json] { return run(*name, *json); };
}

}  // namespace sardonyx::tools
