// The three standard streams when someone closed them or stopped reading: nothing here throws, and
// a failed write stays in the stream's error flag, which main.cc turns into an exit code.
#pragma once

#include <cstdio>
#include <string>

namespace sardonyx::tools {

// Descriptors 0 to 2 that are closed become /dev/null, so that no file opened later takes them.
void open_standard_streams();

void put(std::FILE* file, const std::string& text);

// Do standard output and standard error end in the same file, pipe or terminal?
bool errors_go_with_output();

// Is standard output a pipe that nobody reads any more?
bool reader_gone();
// If so, what was written to it doesn't count as lost.
void forget_gone_reader();

}  // namespace sardonyx::tools
