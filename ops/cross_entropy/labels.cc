// That class numbers are in range.
#include "graph/support/error.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace sardonyx::ops::cross_entropy {

void check_labels(const Labels& labels, const Geometry& geometry, std::optional<int64_t> ignore,
                  int64_t first_sample) {
  for (int64_t i = 0; i < geometry.positions(); ++i) {
    const int64_t y = labels.at(i);
    if ((y >= 0 && y < geometry.classes) || ignore == y) continue;
    const std::string place =
        geometry.inner == 1 ? "" : fmt::format(", position {}", i % geometry.inner);
    throw Error("label {} of sample {}{} is out of range: there are {} classes (0..{})", y,
                first_sample + i / geometry.inner, place, geometry.classes, geometry.classes - 1);
  }
}

ValueCheck label_check() {
  const auto check = [](const KernelRequest& request, const void* values, int64_t first_sample) {
    check_labels({values, request.in[1].dtype}, Geometry::of_scores(request.in_shape(0)),
                 ignore_index_of(*request.node), first_sample);
  };
  return {1, check};
}

}  // namespace sardonyx::ops::cross_entropy
