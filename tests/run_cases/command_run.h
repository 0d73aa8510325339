// The way of `sardonyx train` without its process: flags, data from a file, the trainer. What a
// case gives as tensors is written as an .npz file first.
#pragma once

#include "runtime/config.h"
#include "runtime/session.h"
#include "tests/run_cases/kinds.h"

namespace sardonyx::cases {

class CommandRun {
 public:
  CommandRun(const Task& task, const runtime::Batch& data);

  // Usage, and that batches of this size can come from so many samples. Throws Error.
  void check_flags() const;
  // Of one replica, whatever the batch is cut for.
  runtime::SessionOptions session_options() const;
  // Opens the data and trains. Throws Error.
  void train(runtime::Session& session) const;

 private:
  const Task& task_;
  int64_t samples_;
  runtime::Flags flags_;
};

}  // namespace sardonyx::cases
