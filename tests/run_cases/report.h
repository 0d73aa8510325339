// Prints verdicts: a line per case, then a table per group and the closing line; or JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/run_cases/case.h"
#include "tests/run_cases/verdict.h"

namespace sardonyx::cases {

enum class Format : uint8_t { kText, kJson };
enum class Detail : uint8_t { kBrief, kVerbose };

class Report {
 public:
  Report(Format format, Detail detail) : format_(format), detail_(detail) {}
  void add(const Case& which, const Verdict& verdict);
  // Prints what stands at the end; the number of failures that count.
  int finish();

 private:
  struct Counts {
    int passed = 0, failed = 0, skipped = 0, pending = 0;  // pending ones are among the failed
  };
  struct Line {
    Case which;
    Verdict verdict;
  };
  void print_table() const;
  void print_default_rule() const;
  void print_gradients() const;
  void print_json(const Counts& all) const;

  Format format_;
  Detail detail_;
  std::vector<Line> lines_;
  std::vector<std::string> groups_;  // in the order of their first case
  std::map<std::string, Counts> counts_;
};

}  // namespace sardonyx::cases
