// run_cases DIR...: runs cases, fixtures and ONNX backend node tests through the session API, each
// in a child process, and says PASS, FAIL or SKIP with a reason.
//
// Without DIR: cases/ and fixtures/ of the shared folder (SARDONYX_SHARED, else ../shared). A case
// is skipped only where tests/known_limits.txt lists it.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "graph/names.h"
#include "tests/run_cases/child.h"
#include "tests/run_cases/kinds.h"
#include "tests/run_cases/report.h"
#include "tests/support/paths.h"
#include "tests/support/shared_data.h"

namespace sardonyx::cases {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> folders, filters, excluded;
  std::string pending;
  int jobs = 0;
  Variant variant;
  double seconds = 60;
  int64_t megabytes = 2048;
  bool verbose = false, json = false, only_broken = false, list = false, gradients = false;
};

// Lines of a text file: an id or a glob, then the reason.
using Listed = std::vector<std::pair<std::string, std::string>>;

Listed read_list(const fs::path& path) {
  Listed listed;
  std::ifstream file(path);
  if (!file) throw Error("cannot read '{}'", path.string());
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string id, reason;
    words >> id >> std::ws;
    std::getline(words, reason);
    listed.emplace_back(id, reason);
  }
  return listed;
}

std::string reason_in(const Listed& listed, const Case& which) {
  for (const auto& [glob, reason] : listed) {
    if (graph::glob_match(glob, which.id)) return reason;
  }
  return "";
}

// The reason in known_limits.txt. An entry may name what a node test needs. One that names a test
// is about its numbers, which a check of gradients doesn't read; its own begin with "gradient:".
std::string limit_of(const Listed& limits, const Case& which) {
  for (const auto& [glob, reason] : limits) {
    for (const std::string& need : which.needs) {
      if (graph::glob_match(glob, need)) return fmt::format("{}: {}", need, reason);
    }
  }
  const bool gradient = which.kind == "node_gradient";
  for (const auto& [glob, reason] : limits) {
    if (graph::glob_match(glob, gradient ? "gradient:" + which.id : which.id)) return reason;
  }
  return "";
}

bool any_matches(const std::vector<std::string>& globs, const Case& which) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return graph::glob_match(glob, which.id) ||
           graph::glob_match(glob, which.folder.filename().string());
  });
}

std::vector<Case> chosen_cases(const Options& options) {
  std::vector<fs::path> folders(options.folders.begin(), options.folders.end());
  if (folders.empty()) {
    const fs::path shared = testing::shared_folder();
    if (shared.empty()) throw Error("no folder given, and there is no shared one");
    folders = {shared / "cases", shared / "fixtures"};
  }
  std::vector<Case> cases = find_cases(folders);
  std::erase_if(cases, [&](const Case& which) {
    return (!options.filters.empty() && !any_matches(options.filters, which)) ||
           any_matches(options.excluded, which);
  });
  if (options.gradients) {
    std::erase_if(cases, [](const Case& which) { return which.kind != "node_test"; });
    for (Case& which : cases) which.kind = "node_gradient";
  }
  if (cases.empty()) throw Error("no case matches");
  return cases;
}

// What counts of a verdict. Where only crashes count, other failures are fine. A pending case may
// fail, but not crash, and when it passes its line has to go.
Verdict weighed(const Options& options, const Listed& pending, const Case& which, Verdict verdict) {
  if (options.only_broken && verdict.status == Status::kFail && !verdict.broken) {
    verdict.status = Status::kPass;
  }
  const std::string reason = reason_in(pending, which);
  if (reason.empty()) return verdict;
  if (verdict.status == Status::kFail && !verdict.broken) verdict.pending = reason;
  if (verdict.status == Status::kPass) {
    verdict.status = Status::kFail;
    verdict.reason = fmt::format("passes, but is listed in {}: remove its line", options.pending);
  }
  return verdict;
}

int run(const Options& options) {
  const std::vector<Case> cases = chosen_cases(options);
  if (options.list) {
    for (const Case& which : cases) fmt::print("{}  {}\n", which.id, which.folder.string());
    return 0;
  }
  const Listed limits = read_list(tests::source_folder() / "tests/known_limits.txt");
  const Listed pending = options.pending.empty() ? Listed() : read_list(options.pending);
  const testing::TemporaryFolder scratch;
  std::vector<Job> jobs;
  for (const Case& which : cases) {
    const double seconds = which.seconds > 0 ? which.seconds : options.seconds;
    const int64_t megabytes = which.megabytes > 0 ? which.megabytes : options.megabytes;
    const std::string limit = limit_of(limits, which);
    const auto run = [&, limit](const std::function<void()>& begin) -> Verdict {
      if (!limit.empty()) return {Status::kSkip, limit};
      return run_case(which, scratch.path() / which.id, options.variant, begin);
    };
    jobs.push_back({run, {seconds, megabytes}});
  }
  Report report(options.json ? Format::kJson : Format::kText,
                options.verbose ? Detail::kVerbose : Detail::kBrief);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  run_jobs(jobs, options.jobs > 0 ? options.jobs : cores,
           options.verbose ? Output::kShow : Output::kHide, [&](size_t i, const Verdict& verdict) {
             report.add(cases[i], weighed(options, pending, cases[i], verdict));
           });
  return report.finish() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sardonyx::cases

int main(int argc, char** argv) {
  CLI::App app("Runs cases, fixtures and ONNX backend node tests.");
  sardonyx::cases::Options options;
  app.add_option("folders", options.folders, "cases, or folders of cases");
  app.add_option("--filter", options.filters, "only ids that match one of these globs")
      ->delimiter(',');
  app.add_option("--exclude", options.excluded, "no ids that match one of these globs")
      ->delimiter(',');
  app.add_option("--jobs", options.jobs, "cases at once (default: number of cores)");
  app.add_option("--threads", options.variant.threads, "threads of each session");
  app.add_option("--device", options.variant.device, "of every replica: cpu, cuda:0");
  app.add_option("--dtype", options.variant.dtype, "compute type: f32 or f64")
      ->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--block", options.variant.block, "rows of a block; 0: none; -1: as chosen");
  app.add_option("--lanes", options.variant.lanes, "images in lanes: 0 or 16; -1: as chosen");
  app.add_flag("--reference", options.variant.reference, "reference kernels alone");
  app.add_option("--timeout", options.seconds, "seconds a case may take");
  app.add_option("--memory", options.megabytes, "megabytes a case may take");
  app.add_flag("--verbose", options.verbose, "times, notes, and what the cases print");
  app.add_flag("--json", options.json, "one JSON object instead of lines");
  app.add_flag("--only-broken", options.only_broken,
               "fail only for crashes, hangs, memory and internal errors");
  app.add_option("--pending", options.pending,
                 "file of cases that may fail for now, one a line with the reason; it is an error "
                 "when one passes");
  app.add_flag("--gradients", options.gradients,
               "of node tests: their gradients against central differences, not their outputs");
  app.add_flag("--list", options.list, "print the cases, run none");
  CLI11_PARSE(app, argc, argv);
  try {
    return sardonyx::cases::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
