// `sardonyx train` on five kinds of exported networks: each learns small data made here, until the
// loss of its last epoch is at most half of that of its first step.
//
// The data can't be learnt without what the network is there for: a vision transformer finds a
// patch, an encoder the loud feature of a sequence, a U-Net the level of each pixel below the
// noise, an LSTM keeps the first of seven words. CURVES=FILE.svg draws what docs/training.md shows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/plot.h"
#include "tests/runtime/data/files.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;
using runtime::Curve;

constexpr int kSamples = 128;

// In [-1, 1), of a place and nothing else.
float noise(int sample, int place) {
  const uint32_t mixed = (static_cast<uint32_t>(sample * 7919 + place) * 2654435761U) >> 8;
  return static_cast<float>(mixed & 0xffff) / 32768.F - 1.F;
}

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// Samples and labels as the members of a .npz file.
struct Data {
  std::string x_type, x_shape, x, y_type, y_shape, y;
};

Data of_classes(const std::string& shape, const std::vector<float>& x,
                const std::vector<int64_t>& y) {
  return {"<f4", shape, bytes_of(x), "<i8", fmt::format("({},)", kSamples), bytes_of(y)};
}

// [N,3,16,16]: the class is where a bright patch of 5 x 4 stands among 2 x 5 places.
Data squares() {
  constexpr int kSize = 16;
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int n = 0; n < kSamples; ++n) {
    const int place = n % 10, top = place / 5 * 8 + 2, left = place % 5 * 3;
    y.push_back(place);
    for (int i = 0; i < 3 * kSize * kSize; ++i) {
      const int row = i / kSize % kSize, column = i % kSize;
      const bool bright = row >= top && row < top + 5 && column >= left && column < left + 4;
      x.push_back((bright ? 1.F : 0.F) + 0.3F * noise(n, i));
    }
  }
  return of_classes(fmt::format("({},3,16,16)", kSamples), x, y);
}

// [N,7,6]: one of five features is loud at one of the seven steps.
Data loud_features() {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int n = 0; n < kSamples; ++n) {
    const int feature = n % 5, step = n * 3 % 7;
    y.push_back(feature);
    for (int i = 0; i < 7 * 6; ++i) {
      x.push_back((i == step * 6 + feature ? 2.F : 0.F) + 0.3F * noise(n, i));
    }
  }
  return of_classes(fmt::format("({},7,6)", kSamples), x, y);
}

// [N,1,16,16] and [N,16,16]: four fields, the noise in each wider than the steps between them.
Data fields() {
  constexpr int kSize = 16;
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int n = 0; n < kSamples; ++n) {
    for (int i = 0; i < kSize * kSize; ++i) {
      const int quarter = i / kSize / 8 * 2 + i % kSize / 8;
      const int level = (quarter + n) % 4;
      y.push_back(level);
      x.push_back(static_cast<float>(level) / 2 - 0.75F + 0.4F * noise(n, i));
    }
  }
  return {"<f4", fmt::format("({},1,16,16)", kSamples), bytes_of(x),
          "<i8", fmt::format("({},16,16)", kSamples),   bytes_of(y)};
}

// [N,7] of 20 words: the class is the first word's.
Data sentences() {
  std::vector<int64_t> x, y;
  for (int n = 0; n < kSamples; ++n) {
    for (int i = 0; i < 7; ++i) x.push_back((n * 7 + i * i * 5 + n / 5) % 20);
    y.push_back(x[x.size() - 7] % 5);
  }
  return {"<i8", fmt::format("({},7)", kSamples), bytes_of(x),
          "<i8", fmt::format("({},)", kSamples),  bytes_of(y)};
}

// [N,6] -> [N,2]: a product and a wave.
Data functions() {
  std::vector<float> x, y;
  for (int n = 0; n < kSamples; ++n) {
    for (int i = 0; i < 6; ++i) x.push_back(noise(n, i));
    const float* row = x.data() + x.size() - 6;
    y.push_back(row[0] * row[1] + row[2]);
    y.push_back(std::sin(3 * row[3]));
  }
  return {"<f4", fmt::format("({},6)", kSamples), bytes_of(x),
          "<f4", fmt::format("({},2)", kSamples), bytes_of(y)};
}

struct Learner {
  const char* name;
  const char* fixture;
  Data (*data)();
  const char* flags;
  const char* colour;
};

// Colours that are distinguishable with every kind of colour vision (Okabe and Ito).
constexpr Learner kLearners[] = {
    {"ViT", "torch-dynamo__vit__default", squares, "--set-batch --lr 0.003", "#0072b2"},
    {"encoder", "onnxslim__encoder__paddle-opset17", loud_features, "--set-batch --lr 0.003",
     "#d55e00"},
    {"U-Net", "torch-dynamo__unet_nearest__default", fields, "--set-batch --lr 0.01", "#009e73"},
    {"LSTM", "torch-dynamo__lstm_cls__default", sentences, "--set-batch --lr 0.01", "#cc79a7"},
    {"MLP", "torch-dynamo__mlp_reg__default-dynbatch", functions, "--loss mse --lr 0.01",
     "#e69f00"},
};

void write_npz(const std::filesystem::path& path, const Data& data) {
  std::ofstream(path, std::ios::binary)
      << zip_file({{"x.npy", npy_file(data.x_type, data.x_shape, data.x)},
                   {"y.npy", npy_file(data.y_type, data.y_shape, data.y)}});
}

// The loss of the first step, then those of the epochs.
std::vector<double> losses(const std::filesystem::path& log) {
  std::ifstream lines(log);
  std::vector<double> result;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    if (result.empty() && record.contains("loss")) result.push_back(record["loss"]);
    if (record.contains("train_loss")) result.push_back(record["train_loss"]);
  }
  return result;
}

Curve relative(const Learner& learner, const std::vector<double>& losses) {
  Curve curve{learner.name, learner.colour, {}};
  for (size_t i = 0; i < losses.size(); ++i) {
    curve.points.emplace_back(static_cast<double>(i), losses[i] / losses[0]);
  }
  return curve;
}

void draw(const std::filesystem::path& path, std::vector<Curve> curves) {
  runtime::Picture picture;
  picture.title = "Five exported networks, trained";
  picture.x_title = "epoch";
  picture.subtitle = fmt::format("loss in parts of that of the first step; {} samples", kSamples);
  picture.x_end = static_cast<double>(curves[0].points.size() - 1);
  picture.panels.push_back({"Loss / first loss", runtime::Panel::Unit::kNumber, std::move(curves)});
  std::ofstream(path) << runtime::to_svg(picture);
}

TEST(TrainingCli, five_kinds_of_networks_halve_their_loss) {
  if (shared_fixtures().empty()) GTEST_SKIP() << "the shared fixtures are not there";
  const Program program;
  std::vector<Curve> curves;
  for (const Learner& learner : kLearners) {
    write_npz(program.file("data.npz"), learner.data());
    const auto model = shared_folder() / "fixtures" / learner.fixture / "model.onnx";
    const Outcome outcome = program.run(
        fmt::format("train {} --data npz:data.npz --batch 16 --epochs 30 --optimizer adam --seed 1 "
                    "--log {}.log {}",
                    model.string(), learner.name, learner.flags));
    ASSERT_EQ(outcome.code, 0) << learner.name << "\n" << outcome.err;
    const std::vector<double> found = losses(program.file(fmt::format("{}.log", learner.name)));
    ASSERT_EQ(found.size(), 31) << learner.name;
    std::cout << fmt::format("{}: loss {:.4g} -> {:.4g}\n", learner.name, found[0], found.back());
    EXPECT_LE(found.back(), found[0] / 2) << learner.name;
    curves.push_back(relative(learner, found));
  }
  if (const char* path = std::getenv("CURVES")) draw(path, std::move(curves));
}

}  // namespace
}  // namespace sardonyx::testing
