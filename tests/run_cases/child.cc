#include "tests/run_cases/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace sardonyx::cases {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

namespace {

constexpr bool kSanitized = SARDONYX_SANITIZED;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t peak_megabytes(const rusage& usage) { return usage.ru_maxrss / 1024; }

json to_json(const Verdict& verdict) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {{"status", static_cast<int>(verdict.status)},
          {"reason", verdict.reason},
          {"broken", verdict.broken},
          {"notes", verdict.notes},
          {"checked", verdict.points.checked},
          {"kinks", verdict.points.kinks},
          {"megabytes", peak_megabytes(usage)}};
}

Verdict broken(std::string reason) { return {Status::kFail, std::move(reason), true}; }

template <class Run>
Verdict guarded(Run&& run) {
  try {
    return run();
  } catch (const Mismatch& mismatch) {
    return {Status::kFail, mismatch.what()};
  } catch (const Error& error) {
    return {Status::kFail, error.what()};
  } catch (const std::bad_alloc&) {
    return broken("out of memory");
  } catch (const std::exception& error) {
    return broken(fmt::format("internal error: {}", error.what()));
  } catch (...) {
    return broken("internal error: an exception that is none");
  }
}

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

// The line of a sanitizer's or the C++ library's last words that says what happened.
std::string last_words(FILE* file) {
  std::rewind(file);
  std::string last;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    std::string text(line, std::strcspn(line, "\n"));
    if (text.find("ERROR:") != std::string::npos || text.find("runtime error") != std::string::npos)
      return text;
    if (!text.empty()) last = text;
  }
  return last;
}

void apply_limits(const Limits& limits) {
  const auto set = [](auto resource, double value) {
    const auto number = static_cast<rlim_t>(value);
    const rlimit limit{number, number};
    setrlimit(resource, &limit);
  };
  set(RLIMIT_CORE, 0);
  set(RLIMIT_CPU, std::ceil(4 * limits.seconds));
  // Threads reserve stacks and heaps beyond what they touch.
  if (!kSanitized) set(RLIMIT_AS, (static_cast<double>(limits.megabytes) + 1024) * 1e6);
}

// Making a case's files may take longer than the case.
constexpr double kPreparationSeconds = 300;

class Child {
 public:
  Child(const Job& job, size_t index, Output output) : job_(job), index_(index) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
    words_ = std::tmpfile();
    pid_ = fork();
    CHECK(pid_ >= 0, "fork: {}", std::strerror(errno));
    if (pid_ == 0) live(ends[1], output);
    close(ends[1]);
    fd_ = ends[0];
  }
  ~Child() {
    close(fd_);
    std::fclose(words_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int fd() const { return fd_; }
  size_t index() const { return index_; }
  bool late() const {
    return seconds_since(start_) > (text_.empty() ? kPreparationSeconds : job_.limits.seconds);
  }

  // Takes what the child has written; true when it has closed its end.
  bool drain() {
    char buffer[4096];
    const ssize_t n = read(fd_, buffer, sizeof buffer);
    if (n > 0 && text_.empty()) start_ = Clock::now();
    if (n > 0) text_.append(buffer, static_cast<size_t>(n));
    return n <= 0;
  }

  Verdict end(bool timed_out) {
    if (timed_out) kill(-pid_, SIGKILL);
    int status = 0;
    rusage usage{};
    wait4(pid_, &status, 0, &usage);
    Verdict verdict = judge(status, timed_out, usage);
    verdict.seconds = seconds_since(start_);
    return verdict;
  }

 private:
  [[noreturn]] void live(int pipe_end, Output output) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    if (output == Output::kHide) {
      dup2(nothing, 1);
      dup2(fileno(words_), 2);
    }
    const auto begin = [&] {
      apply_limits(job_.limits);
      write_all(pipe_end, "\n");
    };
    const Verdict verdict = guarded([&] { return job_.run(begin); });
    write_all(pipe_end,
              to_json(verdict).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    _exit(0);
  }

  Verdict judge(int status, bool timed_out, const rusage& usage) {
    if (timed_out) {
      return broken(fmt::format("still running after {:.0f} s", job_.limits.seconds));
    }
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      if (signal == SIGXCPU) return broken("used up its CPU time");
      const std::string words = last_words(words_);
      return broken(fmt::format("ended by signal SIG{}{}{}", sigabbrev_np(signal),
                                words.empty() ? "" : ": ", words));
    }
    const json report = json::parse(text_, nullptr, false);
    if (report.is_discarded()) {
      return broken(fmt::format("ended with code {} and no verdict: {}", WEXITSTATUS(status),
                                last_words(words_)));
    }
    const int64_t megabytes = std::min(report.at("megabytes").get<int64_t>(),
                                       std::max<int64_t>(peak_megabytes(usage), 1));
    if (!kSanitized && megabytes > job_.limits.megabytes) {
      return broken(fmt::format("took {} MB of memory, the limit is {} MB", megabytes,
                                job_.limits.megabytes));
    }
    return {static_cast<Status>(report.at("status").get<int>()),
            report.at("reason"),
            report.at("broken"),
            {},
            report.at("notes"),
            {report.at("checked"), report.at("kinks")}};
  }

  const Job& job_;
  size_t index_;
  pid_t pid_ = -1;
  int fd_ = -1;
  FILE* words_ = nullptr;
  std::string text_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void run_jobs(const std::vector<Job>& jobs, int parallel, Output output,
              const std::function<void(size_t, const Verdict&)>& done) {
  std::vector<std::unique_ptr<Child>> running;
  std::map<size_t, Verdict> finished;
  size_t next = 0, reported = 0;
  while (reported < jobs.size()) {
    while (next < jobs.size() && running.size() < static_cast<size_t>(parallel)) {
      running.push_back(std::make_unique<Child>(jobs[next], next, output));
      ++next;
    }
    std::vector<pollfd> polled;
    for (const auto& child : running) polled.push_back({child->fd(), POLLIN, 0});
    poll(polled.data(), polled.size(), 50);
    for (size_t i = 0; i < running.size(); ++i) {
      Child& child = *running[i];
      const bool closed = polled[i].revents != 0 && child.drain();
      if (!closed && !child.late()) continue;
      finished[child.index()] = child.end(!closed);
      running[i] = nullptr;
    }
    std::erase(running, nullptr);
    for (auto it = finished.begin(); it != finished.end() && it->first == reported;) {
      done(it->first, it->second);
      it = finished.erase(it);
      ++reported;
    }
  }
}

}  // namespace sardonyx::cases
