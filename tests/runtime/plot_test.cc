#include "runtime/plot.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/support/error.h"
#include "runtime/plot_svg.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

RunInfo two_epochs() {
  RunInfo info;
  info.model = "lenet <a&b>";
  info.epochs = 2;
  info.steps_per_epoch = 4;
  info.total_steps = 8;
  info.parameters = 128640;
  return info;
}

void feed(PlotFile& plot) {
  plot.begin(two_epochs());
  for (int64_t step = 1; step <= 8; ++step) {
    StepRecord record;
    record.step = step;
    record.epoch = (step + 3) / 4;
    record.step_in_epoch = (step - 1) % 4 + 1;
    record.loss = 2.0 / static_cast<double>(step);
    plot.step(record);
    if (record.step_in_epoch < 4) continue;
    EpochRecord epoch;
    epoch.epoch = record.epoch;
    epoch.train_loss = record.loss;
    epoch.train_accuracy = 0.1 * static_cast<double>(step);
    epoch.test_accuracy = 0.05 * static_cast<double>(step);
    epoch.test_loss = record.loss + 0.1;
    plot.epoch(epoch);
  }
  plot.end({});
}

TEST(Plot, ticks_are_round_and_inside) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(ticks(0.3, 9.9, 4), (std::vector<double>{2.5, 5, 7.5}));
  EXPECT_TRUE(ticks(1, 1, 5).empty());
  EXPECT_TRUE(ticks(0, kNan, 5).empty());
}

TEST(Plot, picture_has_two_panels_legend_and_escaped_title) {
  const sardonyx::testing::TemporaryFolder folder;
  PlotFile plot(folder.path() / "run.svg");
  feed(plot);
  const std::string svg = sardonyx::testing::read_file(folder.path() / "run.svg");
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 40);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "lenet &lt;a&amp;b&gt;"), 1u);
  EXPECT_EQ(count(svg, ">Loss<"), 1u);
  EXPECT_EQ(count(svg, ">Accuracy<"), 1u);
  EXPECT_EQ(count(svg, "<polyline"), 5u);  // steps, 2 x loss, 2 x accuracy
  EXPECT_EQ(count(svg, "<circle"), 8u);    // 2 epochs x 4 curves
  EXPECT_EQ(count(svg, ">test<"), 2u);
  EXPECT_EQ(count(svg, "best test accuracy 40.00 %  ·  128 640 parameters"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, what_the_scale_cuts_off_is_said) {
  Curve steps{"steps", "#000000", {}, Curve::Look::kFaint};
  for (int i = 0; i < 100; ++i) steps.points.emplace_back(i, i == 0 ? 50.0 : 1.0);
  Picture picture;
  picture.x_end = 100;
  picture.panels.push_back({"Loss", Panel::Unit::kNumber, {steps}});
  EXPECT_EQ(count(to_svg(picture), "cut off above 1.01: steps reach 50"), 1u);
  picture.panels[0].curves[0].points[0].second = 1.0;
  EXPECT_EQ(count(to_svg(picture), "cut off"), 0u);
}

TEST(Plot, epochs_stand_at_their_end) {
  const sardonyx::testing::TemporaryFolder folder;
  PlotFile plot(folder.path() / "run.svg");
  feed(plot);
  const Picture picture = plot.picture();
  EXPECT_EQ(picture.x_end, 2.0);
  EXPECT_EQ(picture.panels[0].curves[1].points,
            (std::vector<std::pair<double, double>>{{1.0, 0.5}, {2.0, 0.25}}));
}

TEST(Plot, a_run_without_accuracy_has_one_panel) {
  const sardonyx::testing::TemporaryFolder folder;
  PlotFile plot(folder.path() / "run.svg");
  plot.begin(two_epochs());
  EpochRecord epoch;
  epoch.train_loss = 1.0;
  plot.epoch(epoch);
  EXPECT_EQ(plot.picture().panels.size(), 1u);
}

TEST(Plot, many_steps_are_thinned_to_their_means) {
  const sardonyx::testing::TemporaryFolder folder;
  PlotFile plot(folder.path() / "run.svg");
  RunInfo info = two_epochs();
  info.steps_per_epoch = 1000;
  plot.begin(info);
  for (int64_t step = 1; step <= 1000; ++step) {
    StepRecord record;
    record.step_in_epoch = record.step = step;
    record.loss = step % 2 == 0 ? 1.0 : 3.0;
    plot.step(record);
  }
  const auto points = plot.picture().panels[0].curves[0].points;
  ASSERT_EQ(points.size(), 334u);
  EXPECT_NEAR(points[0].second, 7.0 / 3.0, 1e-12);
  EXPECT_NEAR(points[0].first, 0.002, 1e-12);
}

TEST(Plot, values_that_are_not_finite_are_left_out) {
  Picture picture;
  picture.panels.push_back(
      {"Loss",
       Panel::Unit::kNumber,
       {{"a", "#000000", {{0, 1}, {0.5, kNan}, {1, 2}}}, {"b", "#000000", {{0, kNan}}}}});
  const std::string svg = to_svg(picture);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(count(svg, "<polyline"), 1u);
  EXPECT_EQ(count(svg, "<circle"), 2u);
}

TEST(Plot, html_wraps_the_picture) {
  const sardonyx::testing::TemporaryFolder folder;
  PlotFile plot(folder.path() / "run.html");
  feed(plot);
  const std::string page = sardonyx::testing::read_file(folder.path() / "run.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_EQ(count(page, "<svg "), 1u);
}

TEST(Plot, a_file_that_cannot_be_made_is_an_error_before_the_run) {
  EXPECT_THROW(PlotFile("/nonexistent/run.svg"), Error);
}

}  // namespace
}  // namespace sardonyx::runtime
