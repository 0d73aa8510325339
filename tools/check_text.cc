#include "tools/check_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "graph/support/text.h"
#include "runtime/class_names.h"
#include "runtime/text.h"
#include "tools/check_advice.h"
#include "tools/train_command.h"

namespace sardonyx::tools {

namespace {

using passes::ParameterRow;
using runtime::bytes_str;
using support::escaped;
using support::printable;
using Role = ParameterRow::Role;

constexpr size_t kWidth = 80;
constexpr size_t kGroups = 12, kUnsupported = 8, kNotices = 6, kPorts = 4;

const char* s(int64_t count) { return count == 1 ? "" : "s"; }

// A line cut behind `width`, in front of a multi-byte character.
std::string cut(std::string line, size_t width) {
  if (line.size() <= width) return line;
  size_t end = width - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
  return line.substr(0, end) + "...";
}

class Text {
 public:
  explicit Text(Rows rows) : all_(rows == Rows::kAll) {}

  bool all() const { return all_; }
  // `text` may hold names of the file.
  void line(const std::string& text) { text_ += printable(text + "\n"); }
  // At most three lines wide, unless everything is wanted.
  void item(const std::string& text) {
    line("  " + (all_ ? text : cut(printable(text), 3 * kWidth)));
  }
  void head(const std::string& text) { text_ += "\n" + text + "\n"; }
  // How many of `count` rows are shown.
  size_t shown(size_t count, size_t most) const { return all_ ? count : std::min(count, most); }
  void rest(size_t count, size_t shown) {
    if (shown < count) line(fmt::format("  ... and {} more; --all shows them", count - shown));
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
  bool all_;
};

// --- the verdict and what stands in the way

int64_t elements(const CheckReport& report, Role role) {
  int64_t sum = 0;
  for (const ParameterGroup& group : report.groups) {
    if (group.role == role) sum += group.elements;
  }
  return sum;
}

int64_t tensors(const CheckReport& report, Role role) {
  return std::ranges::count(report.parameters, role, &ParameterRow::role);
}

// The problem, unless it is that of the nodes which the report lists in its own form. An output
// that isn't known for want of an operator fits no labels, either: that says nothing.
std::string besides_nodes(const CheckReport& report) {
  if (report.unsupported.empty()) return report.problem;
  const auto told = [&](const passes::UnsupportedNode& node) {
    const bool fault = node.kind == passes::UnsupportedNode::Kind::kFault;
    return report.problem.find(fault ? node.reason : "this model needs operators") !=
           std::string::npos;
  };
  return std::ranges::any_of(report.unsupported, told) ? "" : report.problem;
}

// "--batch 128", or of a micro-batch where the batch is cut.
const char* batch_word(const CheckReport& report) {
  return report.rows == report.batch ? "batch" : "micro-batch";
}

// What the word "trainable" alone would hide.
std::string reservations(const CheckReport& report) {
  std::string text;
  if (!report.folded_batch_norms.empty()) {
    const int64_t count = report.folded_count;
    text += fmt::format(", but without\n  its {}BatchNormalization{}: see facts",
                        count > 0 ? fmt::format("{} ", count) : "", count == 1 ? "" : "s");
  }
  if (report.too_large) {
    const MemoryFacts& memory = *report.memory;
    text += fmt::format(
        "{}\n  a {} of {} doesn't fit: it takes {}, and {} {}", text.empty() ? ", but" : ";",
        batch_word(report), report.rows,
        bytes_str(static_cast<double>(memory.planned.state_bytes + memory.planned.arena_bytes)),
        memory.budget_owner, bytes_str(static_cast<double>(memory.budget_bytes)));
  }
  return text;
}

void verdict(Text& text, const CheckReport& report) {
  if (report.trainable()) {
    // The command at the end has the whole path.
    const std::string model = printable(std::filesystem::path(report.model).filename().string());
    const int64_t count = tensors(report, Role::kTrainable);
    text.line(fmt::format("{}: trainable, {} parameters in {} tensor{}{}", model,
                          runtime::count_str(elements(report, Role::kTrainable)), count, s(count),
                          reservations(report)));
    const size_t shown = text.shown(report.open.size(), kPorts);
    for (size_t i = 0; i < shown; ++i) {
      text.item(fmt::format("open, until there are data: the size of {}",
                            runtime::open_axes_str(report.open[i])));
    }
    text.rest(report.open.size(), shown);
  } else {
    text.line(fmt::format("{}: {}", printable(report.model),
                          report.undecided ? "can't be told yet whether it can be trained"
                                           : "can't be trained as it is"));
    const std::string problem = besides_nodes(report);
    if (!problem.empty()) text.line(problem);
  }
}

void unsupported(Text& text, const CheckReport& report) {
  if (report.unsupported.empty()) return;
  const std::vector<UnsupportedGroup> groups = grouped(report.unsupported, report.needs);
  const size_t count = report.unsupported.size();
  text.head(fmt::format("{} node{} can't be run{}", count, s(static_cast<int64_t>(count)),
                        report.trainable() ? "; the loss needs none of them" : ""));
  const size_t shown = text.shown(groups.size(), kUnsupported);
  for (size_t i = 0; i < shown; ++i) {
    const UnsupportedGroup& group = groups[i];
    text.item(fmt::format("{} ({} node{}), {}: {}{}", group.op, group.count, s(group.count),
                          need_text(group.need), runtime::join(group.nodes),
                          group.count > std::ssize(group.nodes) ? ", ..." : ""));
    text.item("  " + group.reason);
  }
  text.rest(groups.size(), shown);
}

// --- parameters

void every_row(Text& text, const CheckReport& report) {
  std::vector<const ParameterRow*> rows;
  for (const ParameterRow& row : report.parameters) rows.push_back(&row);
  std::ranges::stable_sort(rows, {}, [](const ParameterRow* row) { return row->role; });
  size_t name_width = 4, type_width = 4;
  for (const ParameterRow* row : rows) {
    name_width = std::max(name_width, escaped(row->name).size());
    type_width = std::max(type_width, row->type.str().size());
  }
  name_width = std::min<size_t>(name_width, 60);
  text.line(fmt::format("  {:<{}}  {:<{}}  {:<9}  {}", "name", name_width, "type", type_width,
                        "role", "reason"));
  for (const ParameterRow* row : rows) {
    text.line(fmt::format("  {:<{}}  {:<{}}  {:<9}  {}", escaped(row->name), name_width,
                          row->type.str(), type_width, role_word(row->role), row->reason));
  }
}

// As many of them as the rest of the line has room for.
std::string names_in(const std::vector<std::string>& patterns, size_t room) {
  std::string text;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const std::string name = (i > 0 ? ", " : "") + escaped(patterns[i]);
    const size_t more = i + 1 < patterns.size() ? 5 : 0;  // ", ..."
    if (text.size() + name.size() + more > room) return i > 0 ? text + ", ..." : cut(name, room);
    text += name;
  }
  return text;
}

void parameters(Text& text, const CheckReport& report) {
  if (report.parameters.empty()) return;
  text.head(text.all() ? "tensors" : "tensors (--all: each with its reason)");
  if (text.all()) return every_row(text, report);
  constexpr size_t kKind = 22;
  text.line(fmt::format("    {:<{}} {:>7} with {:>10}  {}", "first read by", kKind - 3, "tensors",
                        "elements", "names"));
  const size_t shown = text.shown(report.groups.size(), kGroups);
  for (size_t i = 0; i < shown; ++i) {
    const ParameterGroup& group = report.groups[i];
    if (i == 0 || report.groups[i - 1].role != group.role) {
      text.line(fmt::format("  {}", role_word(group.role)));
    }
    std::string kind = escaped(group.kind);
    if (kind.size() > kKind) text.line("    " + std::exchange(kind, ""));
    const std::string begin = fmt::format("    {:<{}} {:>4} with {:>10}  ", kind, kKind,
                                          group.tensors, runtime::count_str(group.elements));
    text.line(begin + names_in(group.patterns, kWidth - std::min(kWidth - 10, begin.size())));
  }
  text.rest(report.groups.size(), shown);
}

// --- facts

// PyTorch and tf2onnx do in their default mode, and so do optimizers, which take the name away.
bool may_fold(std::string_view producer) {
  return producer.empty() || producer.starts_with("pytorch") || producer.starts_with("tf2onnx");
}

std::string batch_norm(const CheckReport& report) {
  std::string text = fmt::format("{} BatchNormalization", report.batch_norms);
  if (report.batch_norms > 0) {
    text += fmt::format(" ({} in training form): batch statistics in training only",
                        report.batch_norms_in_training_form);
    if (!report.folded_batch_norms.empty()) text += "\n  others";
  }
  if (!report.folded_batch_norms.empty()) {
    text += fmt::format(": {} (docs/exporters.md)", report.folded_batch_norms);
  } else if (report.batch_norms == 0 && report.convolutions > 0 && may_fold(report.producer)) {
    text += " (if your network has some, the export folded them: docs/exporters.md)";
  }
  return text;
}

std::string dropout(const CheckReport& report) {
  if (report.dropouts > 0) {
    return fmt::format("{} Dropout: active in training only", report.dropouts);
  }
  if (report.dropout_advice.empty()) return "0 Dropout";
  return "0 Dropout, but names of some; " + report.dropout_advice;
}

void ports(Text& text, const char* verb, const std::vector<std::string>& ports) {
  const size_t shown = text.shown(ports.size(), kPorts);
  for (size_t i = 0; i < shown; ++i) text.item(fmt::format("{} {}", verb, ports[i]));
  text.rest(ports.size(), shown);
}

// In full, since a cause that is cut may be taken for another.
void refused_set_batch(Text& text, const CheckReport& report) {
  if (report.set_batch && !report.trainable()) return;  // asked for: the verdict has it
  constexpr std::string_view kFlag = "--set-batch: ";
  std::string why = report.set_batch_problem;
  if (why.starts_with(kFlag)) why.erase(0, kFlag.size());
  const std::vector<std::string> lines = runtime::split(why, '\n');
  text.line(fmt::format("  --set-batch doesn't work here: {}", lines.front()));
  for (size_t i = 1; i < lines.size(); ++i) text.line("  " + lines[i]);
}

void baked_batch(Text& text, const CheckReport& report) {
  const int64_t rows = report.baked_rows;
  if (rows <= 0) return text.line("  any batch size");
  if (!report.set_batch_known) {
    return text.line(fmt::format(
        "  the batch {} is baked in; whether --set-batch takes another shows once {}", rows,
        report.trainable() || report.undecided ? "the sizes are known" : "the rest is fine"));
  }
  if (report.set_batch_problem.empty()) {
    text.line(fmt::format("  the batch {} is baked in; --set-batch takes any other", rows));
    return text.line("    (a saved file keeps it: eval that with --set-batch, too)");
  }
  text.line(fmt::format(
      "  the batch {0} is baked in: every (micro-)batch must have {0} rows (--drop-last)", rows));
  refused_set_batch(text, report);
}

void facts(Text& text, const CheckReport& report) {
  text.head("facts");
  text.line(fmt::format("  {} node{}, opset {}{}", report.nodes, s(report.nodes), report.opset,
                        report.producer.empty() ? "" : ", from " + report.producer));
  ports(text, "takes", report.inputs);
  ports(text, "gives", report.outputs);
  if (!report.class_names.empty()) {
    text.item("classes: " + runtime::class_names_str(report.class_names));
  }
  baked_batch(text, report);
  text.line("  " + batch_norm(report));
  text.line("  " + dropout(report));
  const size_t shown = text.shown(report.unusual_momenta.size(), kPorts);
  for (size_t i = 0; i < shown; ++i) {
    text.item(fmt::format("momentum of {} (ONNX: the share of the old running value)",
                          report.unusual_momenta[i]));
  }
  text.rest(report.unusual_momenta.size(), shown);
}

// --- memory

void largest(Text& text, const CheckReport& report) {
  const MemoryFacts& memory = *report.memory;
  if (!memory.largest) return;
  const std::string where = fmt::format(
      "the {} that {}", bytes_str(static_cast<double>(memory.budget_bytes)), memory.budget_owner);
  const LargestBatch& found = *memory.largest;
  if (report.demands_rows()) {
    if (found.rows == 0) text.line(fmt::format("  that is more than {}", where));
    return;
  }
  if (found.rows == 0) {
    text.line(fmt::format("  not even one row fits into {}", where));
  } else if (found.more) {
    text.line(fmt::format("  {} rows and more fit into {}", found.rows, where));
  } else {
    text.line(fmt::format("  the largest {} is {}: it takes {} of {}", batch_word(report),
                          found.rows, bytes_str(static_cast<double>(found.bytes)), where));
  }
}

// Each of these lines is to be read, or copied, in full.
void unplanned_memory(Text& text, const CheckReport& report, const runtime::Flags& flags) {
  text.head("memory");
  for (const std::string& line : runtime::split(sizes_step(report, flags), '\n')) {
    text.line("  " + line);
  }
}

void memory(Text& text, const CheckReport& report, const runtime::Flags& flags) {
  if (report.trainable() && !report.open.empty()) return unplanned_memory(text, report, flags);
  if (!report.memory) return;
  const passes::MemoryReport& planned = report.memory->planned;
  text.head(report.replicas > 1
                ? fmt::format("memory that training takes, on each of {} replicas", report.replicas)
                : "memory that training takes (beside the data set)");
  text.line(fmt::format("  {} of {}: {}, all of it taken before the first step", batch_word(report),
                        report.rows,
                        bytes_str(static_cast<double>(planned.state_bytes + planned.arena_bytes))));
  text.line(fmt::format("    {:>10}  {}", bytes_str(static_cast<double>(planned.state_bytes)),
                        report.memory->states));
  text.line(fmt::format("    {:>10}  results and gradients of the step",
                        bytes_str(static_cast<double>(planned.arena_bytes))));
  text.item(fmt::format("the step needs the most at {}", report.memory->peak));
  largest(text, report);
}

// --- what else there is

void list(Text& text, const char* head, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  text.head(head);
  const size_t shown = text.shown(lines.size(), kNotices);
  for (size_t i = 0; i < shown; ++i) text.item(lines[i]);
  text.rest(lines.size(), shown);
}

std::vector<std::string> notices(const CheckReport& report) {
  std::vector<std::string> lines = report.notices;
  if (!report.tied.empty()) {
    const auto some = std::span(report.tied).first(std::min<size_t>(report.tied.size(), 3));
    std::string line = "a tensor in several places is one parameter, its gradients add up: ";
    line += runtime::join(std::vector<std::string>(some.begin(), some.end()));
    if (some.size() < report.tied.size()) {
      line += fmt::format(" and {} more", report.tied.size() - some.size());
    }
    lines.push_back(line);
  }
  return lines;
}

void ending(Text& text, const CheckReport& report, const runtime::Flags& flags) {
  if (report.trainable()) {
    text.head(fmt::format("train it with{}", to_fill_in(report)));
    for (const std::string& line : assumptions(report, flags)) text.item(line);
    text.line("  " + train_command(report, flags));
    return;
  }
  const std::string step = next_step(report, flags);
  if (!step.empty()) text.head("next step: " + printable(step));
}

}  // namespace

std::string headline(const CheckReport& report) {
  std::string line = besides_nodes(report);
  if (line.empty()) {
    const auto count = std::ssize(report.unsupported);
    return fmt::format("{} node{} can't be run", count, s(count));
  }
  line.resize(std::min(line.size(), line.find('\n')));
  while (line.ends_with(':')) line.pop_back();
  return line;
}

std::string report_text(const CheckReport& report, const runtime::Flags& flags, Rows rows) {
  Text text(rows);
  verdict(text, report);
  unsupported(text, report);
  parameters(text, report);
  facts(text, report);
  memory(text, report, flags);
  list(text, "near misses", report.near_misses);
  list(text, "notices", notices(report));
  ending(text, report, flags);
  return text.str();
}

}  // namespace sardonyx::tools
