// The file of --save-best: the model after each evaluation that is better than all before.
#pragma once

#include <string>

#include "runtime/metrics.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

class BestModel final : public TrainListener {
 public:
  // The session outlives this.
  BestModel(const Session& session, std::string path, SaveOptions options)
      : session_(session), path_(std::move(path)), options_(options) {}
  // A file that can't be written is a warning: the run is worth more than it. The next better
  // evaluation tries again; until then an older file stands.
  void epoch(const EpochRecord& record) override;
  // "" when nothing was.
  const std::string& saved() const { return saved_; }
  const std::vector<std::string>& data_files() const { return data_files_; }

 private:
  const Session& session_;
  std::string path_, saved_;
  std::vector<std::string> data_files_;
  SaveOptions options_;
};

}  // namespace sardonyx::runtime
