#include "graph/support/log.h"

#include <cstdio>
#include <mutex>
#include <string>

#include "graph/support/env.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::support {
namespace {

struct Log {
  std::mutex mutex;
  LogSink sink;
};

Log& the_log() {
  static Log log;
  return log;
}

void to_stderr(LogLevel level, std::string_view line) {
  std::string text = level == LogLevel::kWarning ? "warning: " : "";
  text.append(printable(line)).append("\n");
  std::fwrite(text.data(), 1, text.size(), stderr);  // one call per line: processes share stderr
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  std::swap(log.sink, sink);
  return sink;
}

bool log_shows(LogLevel level) {
  const std::string& shown = env("SARDONYX_LOG");
  if (shown == "debug") return true;
  if (shown == "notice") return level >= LogLevel::kNotice;
  if (shown == "warning") return level >= LogLevel::kWarning;
  if (shown == "quiet") return false;
  throw Error("the environment has SARDONYX_LOG={}, expected debug, notice, warning or quiet",
              shown);
}

void log_line(LogLevel level, std::string_view line) {
  if (!log_shows(level)) return;
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.sink ? log.sink(level, line) : to_stderr(level, line);
}

}  // namespace sardonyx::support
