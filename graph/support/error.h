// The one exception of Sardonyx and the CHECK macro.
//
// `Error` is the user's mistake: it says what, where, found, expected and what to do, and collects
// "while ..." lines on its way up. A failed CHECK is our mistake: it is active in all builds and
// ends in exit code 3, never in a silent wrong result.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace sardonyx {

// A mistake in what the user gave (file, flag, data). Command-line exit code 1.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0)
      : message_(fmt::format(format, std::forward<Args>(args)...)) {}

  // Appends "\n  while CONTEXT"; call sites go from the innermost context to the outermost.
  void add_context(const std::string& context) { message_ += "\n  while " + context; }

  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// A broken invariant of Sardonyx itself. Command-line exit code 3.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string message) : message_(std::move(message)) {}
  void add_context(const std::string& context) { message_ += "\n  while " + context; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Runs `body`; an error that leaves it gains the line "while " + `context()`. The context is a
// callable, so that its text is built only when something went wrong.
template <class Context, class Body>
decltype(auto) with_context(Context&& context, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_context(context());
    throw;
  } catch (InternalError& error) {
    error.add_context(context());
    throw;
  }
}

namespace support {
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);
}  // namespace support

}  // namespace sardonyx

// CHECK(cond) or CHECK(cond, "format {}", args...). Always on.
#define CHECK(condition, ...)                                           \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::sardonyx::support::check_failed(#condition, __FILE__, __LINE__, \
                                        ::fmt::format("" __VA_ARGS__)); \
  } while (false)
