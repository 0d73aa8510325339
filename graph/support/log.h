// Notices and warnings for the user, one line each, to stderr. Results never come this way: they go
// to stdout. SARDONYX_LOG says from which level on lines are shown; safe from several threads,
// lines never mix.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace sardonyx::support {

enum class LogLevel : uint8_t { kDebug, kNotice, kWarning };

// Gets every line that is shown, without prefix and newline.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink (an empty one: stderr) and returns the one before. Tests use ScopedLogSink.
LogSink set_log_sink(LogSink sink);
// Throws Error when SARDONYX_LOG is none of debug, notice, warning, quiet.
bool log_shows(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_shows(LogLevel::kDebug)) {
    log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}

// What the user may want to know: a decision taken for him.
template <class... Args>
void notice(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kNotice, fmt::format(format, std::forward<Args>(args)...));
}

// What is probably not what the user wants.
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

// Lines go to `sink` while this lives.
class ScopedLogSink {
 public:
  explicit ScopedLogSink(LogSink sink) : before_(set_log_sink(std::move(sink))) {}
  ~ScopedLogSink() { set_log_sink(std::move(before_)); }
  ScopedLogSink(const ScopedLogSink&) = delete;
  ScopedLogSink& operator=(const ScopedLogSink&) = delete;

 private:
  LogSink before_;
};

}  // namespace sardonyx::support
