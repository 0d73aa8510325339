#include "runtime/best_model.h"

#include "graph/support/error.h"
#include "graph/support/log.h"

namespace sardonyx::runtime {

void BestModel::epoch(const EpochRecord& record) {
  if (!record.best) return;
  try {
    SavedModel saved = session_.save(path_, options_);
    if (saved_.empty()) {
      for (const std::string& line : saved.notices) support::notice("{}", line);
    }
    saved_ = path_;
    data_files_ = std::move(saved.data_files);
  } catch (const Error& error) {
    support::warning("--save-best: the model of epoch {} is not kept: {}", record.epoch,
                     error.what());
  }
}

}  // namespace sardonyx::runtime
