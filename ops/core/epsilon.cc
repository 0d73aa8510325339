#include "ops/core/epsilon.h"

#include <cmath>

namespace sardonyx::ops {

namespace {

constexpr double kUsual = 1e-5;

std::string consequence(double epsilon) {
  if (std::isnan(epsilon)) return "every result is not a number";
  if (std::isinf(epsilon)) return "everything is divided by infinity";
  return fmt::format(
      "where what it is added to is below {:.4g}, the sum is negative, and the result "
      "not a number",
      -epsilon);
}

}  // namespace

void require_epsilon(const InferContext& context, const char* constraint, const char* attribute) {
  const double epsilon = context.node().get_float(attribute, kUsual);
  if (std::isfinite(epsilon) && epsilon >= 0) return;
  context.fail(constraint,
               "attribute '{}' is {:.4g}, expected a finite number above 0: {}; write the number "
               "that was meant into the file",
               attribute, epsilon, consequence(epsilon));
}

std::string hint_at_zero(const Node& node, const char* attribute, double fallback) {
  if (node.get_float(attribute, fallback) != 0) return "";
  return fmt::format(
      "attribute '{}' is 0: where all numbers that are normalised together are equal, 0 is divided "
      "by 0 and the result is not a number; unless that can't happen, write a number above 0 into "
      "the file",
      attribute);
}

std::string hint_at_epsilon(const Node& node) { return hint_at_zero(node, "epsilon", kUsual); }

}  // namespace sardonyx::ops
