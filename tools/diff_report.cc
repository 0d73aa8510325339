#include "tools/diff_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/support/text.h"
#include "tools/json_text.h"

namespace sardonyx::tools {

namespace {

using Json = nlohmann::ordered_json;
using support::escaped;

constexpr size_t kMostLines = 20;     // of a list in text
constexpr int64_t kMostTyped = 3;     // entries that only got types, one by one
constexpr size_t kLongestText = 120;  // of one side of a change

struct NamedList {
  const char* name;
  const ListDiff* list;
};

std::vector<NamedList> lists(const GraphDiff& diff) {
  return {{"nodes", &diff.nodes},
          {"initializers", &diff.initializers},
          {"inputs", &diff.inputs},
          {"outputs", &diff.outputs},
          {"functions", &diff.functions}};
}

std::string side(const std::optional<std::string>& text) {
  if (!text) return "nothing";
  if (text->empty()) return "\"\"";
  const std::string shown = escaped(*text);
  return shown.size() <= kLongestText ? shown : escaped(text->substr(0, kLongestText)) + "...";
}

std::string change_text(const Change& change) {
  return fmt::format("{}: {} -> {}", escaped(change.what), side(change.a), side(change.b));
}

std::string values_text(const ValuesDiff& values) {
  const std::string most = values.max_abs ? fmt::format(", by {:g} at most", *values.max_abs) : "";
  return fmt::format("{} of {} elements differ{}", values.differ, values.elements, most);
}

// infer_shapes finds the types of nearly all nodes: a line for each would hide everything else.
bool only_gained_types(const EntryDiff& entry) {
  return !entry.values && std::ranges::all_of(entry.changes, [](const Change& change) {
    return change.what.starts_with("type of output ") && !change.a;
  });
}

std::vector<std::string> lines_of(const ListDiff& list) {
  std::vector<std::string> lines;
  for (const std::string& name : list.removed) lines.push_back("- " + escaped(name));
  for (const std::string& name : list.added) lines.push_back("+ " + escaped(name));
  const auto typed = std::ranges::count_if(list.changed, only_gained_types);
  for (const EntryDiff& entry : list.changed) {
    if (typed > kMostTyped && only_gained_types(entry)) continue;
    std::string line = "~ " + escaped(entry.name);
    const char* between = ": ";
    for (const Change& change : entry.changes) {
      line += between + change_text(change);
      between = "; ";
    }
    if (entry.values) line += between + values_text(*entry.values);
    lines.push_back(std::move(line));
  }
  if (typed > kMostTyped) {
    lines.push_back(fmt::format("~ {} more have types now (--json lists them)", typed));
  }
  return lines;
}

std::string section(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = "\n" + title + "\n";
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) text += "  " + lines[i] + "\n";
  if (lines.size() > kMostLines) {
    text += fmt::format("  and {} more (--json lists all)\n", lines.size() - kMostLines);
  }
  return text;
}

Json to_json(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& change : changes) {
    list.push_back({{"what", change.what},
                    {"a", change.a ? Json(*change.a) : Json()},
                    {"b", change.b ? Json(*change.b) : Json()}});
  }
  return list;
}

Json to_json(const EntryDiff& entry) {
  Json json = {{"name", entry.name}, {"changes", to_json(entry.changes)}};
  if (entry.values) {
    const auto& most = entry.values->max_abs;
    json["values"] = {{"elements", entry.values->elements},
                      {"differ", entry.values->differ},
                      {"max_abs_difference", most ? Json(*most) : Json()}};
  }
  return json;
}

Json to_json(const ListDiff& list) {
  Json changed = Json::array();
  for (const EntryDiff& entry : list.changed) changed.push_back(to_json(entry));
  return {{"a", list.a},
          {"b", list.b},
          {"added", list.added},
          {"removed", list.removed},
          {"changed", std::move(changed)}};
}

}  // namespace

std::string diff_text(const GraphDiff& diff, const std::string& a, const std::string& b) {
  std::string text = fmt::format("{} -> {}: {}\n", escaped(a), escaped(b),
                                 diff.equal() ? "no difference" : "they differ");
  for (const auto& [name, list] : lists(diff)) {
    if (list->a + list->b == 0) continue;
    const std::string counts =
        list->count() == 0 ? "the same"
                           : fmt::format("{} added, {} removed, {} changed", list->added.size(),
                                         list->removed.size(), list->changed.size());
    text += fmt::format("  {:<13} {:>6} -> {:<6} {}\n", name, list->a, list->b, counts);
  }
  std::vector<std::string> facts;
  for (const Change& change : diff.facts) facts.push_back(change_text(change));
  text += section("facts", facts);
  for (const auto& [name, list] : lists(diff)) text += section(name, lines_of(*list));
  return text;
}

std::string diff_json(const GraphDiff& diff, const std::string& a, const std::string& b) {
  Json json = {{"schema", "sardonyx.diff/1"}, {"a", a}, {"b", b}, {"equal", diff.equal()}};
  json["facts"] = to_json(diff.facts);
  for (const auto& [name, list] : lists(diff)) json[name] = to_json(*list);
  return json_text(json) + "\n";
}

}  // namespace sardonyx::tools
