#include "tests/run_cases/report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace sardonyx::cases {

using nlohmann::json;

namespace {

std::string status_name(Status status) {
  return status == Status::kPass ? "PASS" : status == Status::kFail ? "FAIL" : "SKIP";
}

// One line, and harmless to a terminal whatever stands in the file.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += " |";
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      line += '?';
    } else {
      line += c;
    }
  }
  return line;
}

void print_counts(const std::map<std::string, int>& counts) {
  for (const auto& [text, count] : counts) fmt::print("  {:>4}  {}\n", count, one_line(text));
}

}  // namespace

void Report::add(const Case& which, const Verdict& verdict) {
  if (!counts_.contains(which.group)) groups_.push_back(which.group);
  Counts& counts = counts_[which.group];
  ++(verdict.status == Status::kPass   ? counts.passed
     : verdict.status == Status::kFail ? counts.failed
                                       : counts.skipped);
  if (!verdict.pending.empty()) ++counts.pending;
  lines_.push_back({which, verdict});
  if (format_ == Format::kJson) return;
  fmt::print("{} {}", status_name(verdict.status), which.id);
  if (!verdict.pending.empty()) fmt::print(" (pending: {})", verdict.pending);
  if (!verdict.reason.empty()) fmt::print(": {}", one_line(verdict.reason));
  if (detail_ == Detail::kVerbose) fmt::print(" ({:.2f} s)", verdict.seconds);
  fmt::print("\n");
  if (detail_ == Detail::kVerbose) {
    for (const std::string& note : verdict.notes) fmt::print("  {}\n", one_line(note));
  }
  std::fflush(stdout);
}

void Report::print_table() const {
  fmt::print("\n{:<18} {:>6} {:>6} {:>7}\n", "group", "passed", "failed", "skipped");
  for (const std::string& group : groups_) {
    const Counts& c = counts_.at(group);
    fmt::print("{:<18} {:>6} {:>6} {:>7}\n", group, c.passed, c.failed, c.skipped);
  }
}

// Of the fixtures, how many lists of trainable tensors the default rule reproduces.
void Report::print_default_rule() const {
  int same = 0, all = 0;
  for (const Line& line : lines_) {
    if (line.which.kind != "fixture") continue;
    ++all;
    for (const std::string& note : line.verdict.notes) same += note == "default rule: same" ? 1 : 0;
  }
  if (all == 0) return;
  fmt::print("\nThe default rule finds the trainable tensors of {} of {} fixtures.\n", same, all);
  for (const Line& line : lines_) {
    for (const std::string& note : line.verdict.notes) {
      if (note.starts_with("default rule: ") && note != "default rule: same") {
        fmt::print("  {}: {}\n", line.which.id, one_line(note));
      }
    }
  }
}

void Report::print_gradients() const {
  std::map<Status, int> tests;
  std::map<std::string, int> reasons, operands;
  Points points;
  for (const Line& line : lines_) {
    if (line.which.kind != "node_gradient") continue;
    const Verdict& verdict = line.verdict;
    ++tests[verdict.status];
    if (verdict.status == Status::kSkip) ++reasons[verdict.reason];
    for (const std::string& note : verdict.notes) {
      if (note.starts_with(kLeftOut)) ++operands[note.substr(std::strlen(kLeftOut))];
    }
    points.checked += verdict.points.checked;
    points.kinks += verdict.points.kinks;
  }
  if (tests.empty()) return;
  fmt::print("\ngradients: {} checked, {} failed, {} skipped:\n",
             tests[Status::kPass] + tests[Status::kFail], tests[Status::kFail],
             tests[Status::kSkip]);
  print_counts(reasons);
  fmt::print("operands left out, through which no gradient goes:\n");
  print_counts(operands);
  fmt::print("{} elements compared, {} at kinks, jumps and poles left out\n", points.checked,
             points.kinks);
}

void Report::print_json(const Counts& all) const {
  json results = json::array(), groups = json::object();
  for (const Line& line : lines_) {
    results.push_back({{"id", line.which.id},
                       {"group", line.which.group},
                       {"kind", line.which.kind},
                       {"status", status_name(line.verdict.status)},
                       {"reason", line.verdict.reason},
                       {"broken", line.verdict.broken},
                       {"pending", line.verdict.pending},
                       {"notes", line.verdict.notes},
                       {"seconds", line.verdict.seconds}});
  }
  for (const auto& [group, c] : counts_) {
    groups[group] = {{"passed", c.passed}, {"failed", c.failed}, {"skipped", c.skipped}};
  }
  const json report = {{"results", results},
                       {"groups", groups},
                       {"passed", all.passed},
                       {"failed", all.failed},
                       {"skipped", all.skipped}};
  fmt::print("{}\n", report.dump(1, ' ', false, json::error_handler_t::replace));
}

int Report::finish() {
  Counts all;
  for (const auto& [group, c] : counts_) {
    all.passed += c.passed;
    all.failed += c.failed;
    all.skipped += c.skipped;
    all.pending += c.pending;
  }
  if (format_ == Format::kJson) {
    print_json(all);
  } else {
    print_table();
    print_default_rule();
    print_gradients();
    if (all.pending > 0) fmt::print("\n{} of the failed ones are pending.", all.pending);
    fmt::print("\n{} passed, {} failed, {} skipped\n", all.passed, all.failed, all.skipped);
  }
  return all.failed - all.pending;
}

}  // namespace sardonyx::cases
