#include "runtime/single_rows.h"

#include <algorithm>

#include "runtime/session.h"

namespace sardonyx::runtime {

bool join_singles(Session& session, const std::vector<int64_t>& batches, CutOptions& cut) {
  const bool cuts_single = std::ranges::any_of(batches, [&](int64_t batch) {
    Cut pieces = cut_batch(batch, cut);
    if (session.shares_statistics()) pieces = {rows_over_replicas(pieces)};
    return std::ranges::any_of(pieces,
                               [](const auto& parts) { return std::ranges::count(parts, 1) > 0; });
  });
  if (cut.baked > 0 || !cuts_single || session.examine(2).least_rows < 2) return false;
  cut.singles = Singles::kJoin;
  session.add_notices(
      {"a micro-batch of one sample joins the one before it: BatchNormalization can't take it "
       "alone"});
  return true;
}

}  // namespace sardonyx::runtime
