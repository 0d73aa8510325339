// No operator is half there: each one has documentation, a shape rule, a gradient or the reason why
// it has none, a reference kernel on the CPU unless it is a view, and a test.
//
// Whether an operator is tested is read from the sources of tests/ops, not from what ran: the claim
// then holds under every filter, shard and single test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "ops/core/kernel.h"
#include "tests/support/paths.h"

namespace sardonyx::test {
namespace {

using ops::Device;
using ops::Gradient;
using ops::KernelDef;
using ops::KernelRegistry;
using ops::OpDef;
using ops::OpRegistry;

std::string label(const OpDef& op) { return ops::op_label(op.domain, op.name); }

// All operators for which `broken` holds, one per line: a test then names all of them at once.
template <class F>
std::string operators(F&& broken) {
  std::string names;
  for (const OpDef* op : OpRegistry::get().all()) {
    if (broken(*op)) names += "\n  " + label(*op);
  }
  return names;
}

std::string test_sources() {
  std::string text;
  const std::filesystem::path folder = tests::source_folder() / "tests/ops";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    std::ostringstream source;
    source << std::ifstream(entry.path()).rdbuf();
    text += source.str();
  }
  return text;
}

TEST(Completeness, there_are_operators) { EXPECT_GE(OpRegistry::get().all().size(), 30u); }

TEST(Completeness, every_operator_and_attribute_is_documented) {
  EXPECT_EQ(operators([](const OpDef& op) {
              const auto undocumented = [](const auto& a) {
                return a.name.empty() || a.doc.empty();
              };
              return op.doc.size() < 5 ||
                     std::any_of(op.attributes.begin(), op.attributes.end(), undocumented);
            }),
            "");
}

TEST(Completeness, every_operator_names_its_inputs_and_outputs) {
  EXPECT_EQ(operators([](const OpDef& op) {
              std::set<std::string> names;
              for (const ops::Port& port : op.inputs) names.insert(port.name);
              const bool repeated = names.size() != op.inputs.size();
              return op.outputs.empty() || op.outputs[0].name.empty() || repeated ||
                     names.contains("");
            }),
            "");
}

TEST(Completeness, every_standard_operator_lists_the_opsets_it_is_read_from) {
  EXPECT_EQ(operators([](const OpDef& op) {
              const bool standard = op.domain.empty();
              return standard == op.since.empty() && !op.spelling
                         ? true
                         : !std::is_sorted(op.since.begin(), op.since.end());
            }),
            "");
}

TEST(Completeness, every_operator_has_a_shape_rule) {
  EXPECT_EQ(operators([](const OpDef& op) { return op.infer == nullptr; }), "");
}

TEST(Completeness, every_operator_has_a_gradient_or_says_why_not) {
  EXPECT_EQ(operators([](const OpDef& op) {
              if (op.gradient.kind == Gradient::Kind::kMissing) return true;
              if (op.gradient.kind == Gradient::Kind::kRule) return op.gradient.rule == nullptr;
              return op.gradient.reason.empty();
            }),
            "");
}

TEST(Completeness, an_operator_with_weights_says_what_they_join_and_no_other_does) {
  EXPECT_EQ(operators([](const OpDef& op) {
              bool weights = false;
              for (int i = 0; op.parameter_slot && i < std::ssize(op.inputs); ++i) {
                weights |= op.parameter_slot(i) == ops::ParameterSlot::kWeight;
              }
              return weights != (op.fan != nullptr);
            }),
            "");
}

TEST(Completeness, an_operator_has_what_it_says_about_the_order_of_axes) {
  EXPECT_EQ(operators([](const OpDef& op) {
              const bool has_axis =
                  std::ranges::any_of(op.attributes, [](const ops::AttributeDef& attribute) {
                    return attribute.name == "axis" || attribute.name == "axes";
                  });
              switch (op.axes) {
                case ops::AxisUse::kNone:
                  return false;
                case ops::AxisUse::kElementwise:
                  return has_axis || op.outputs.size() != 1;
                case ops::AxisUse::kAxis:
                  return !has_axis;
                default:
                  return has_axis || op.inputs.size() < 2;
              }
            }),
            "");
}

TEST(Completeness, a_view_has_no_kernel_and_all_others_have_a_reference) {
  EXPECT_EQ(operators([](const OpDef& op) {
              const auto kernels = KernelRegistry::get().find(op.domain, op.name);
              if (op.view || op.spelling) return !kernels.empty();
              return std::none_of(kernels.begin(), kernels.end(), [](const KernelDef* kernel) {
                return kernel->name.ends_with(".ref") && kernel->speed == ops::Speed::kReference;
              });
            }),
            "");
}

TEST(Completeness, every_kernel_belongs_to_an_operator_and_to_its_device) {
  std::string strays;
  for (const Device device : {Device::kCpu, Device::kCuda}) {
    for (const KernelDef* kernel : KernelRegistry::get(device).all()) {
      const bool known = OpRegistry::get().find(kernel->domain, kernel->op) != nullptr;
      if (!known || kernel->device != device) strays += "\n  " + kernel->name;
    }
  }
  EXPECT_EQ(strays, "");
}

TEST(Completeness, every_operator_is_named_in_a_test) {
  const std::string sources = test_sources();
  ASSERT_FALSE(sources.empty()) << "no sources below " << tests::source_folder();
  EXPECT_EQ(operators([&](const OpDef& op) {
              // Spellings stand in the text of graphs.
              return sources.find('"' + op.name + '"') == std::string::npos &&
                     !(op.spelling && sources.find(op.name + '<') != std::string::npos) &&
                     !(op.spelling && sources.find(op.name + '(') != std::string::npos);
            }),
            "");
}

}  // namespace
}  // namespace sardonyx::test
