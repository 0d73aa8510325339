#include "tools/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sardonyx::tools {

void open_standard_streams() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    // The lowest free number is taken, which is this one.
    if (::fcntl(fd, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != fd) return;
  }
}

void put(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

bool errors_go_with_output() {
  struct stat out = {}, err = {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

bool reader_gone() {
  pollfd descriptor = {STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&descriptor, 1, 0) > 0 && (descriptor.revents & POLLERR) != 0;
}

void forget_gone_reader() {
  if (reader_gone() && std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
}

}  // namespace sardonyx::tools
