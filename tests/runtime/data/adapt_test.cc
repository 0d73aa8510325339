// From a data set to a model's input: readings that are allowed, those that are not, and the bytes.
#include "runtime/data/adapt.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"
#include "runtime/data/fit.h"
#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using graph::Dim;
using graph::DType;
using graph::Tensor;
using graph::TensorType;
using testing::error_of;
using Shape = std::vector<int64_t>;

constexpr int64_t kAny = -1;

ModelInput input(DType dtype, const Shape& sample) {
  std::vector<Dim> dims{Dim::named("N")};
  for (int64_t size : sample) dims.push_back(Dim(size));
  return {"x", TensorType(dtype, dims)};
}

Fit fit(const Shape& data, ImageAxes axes, const Shape& model) {
  DatasetInfo info;
  info.name = "d";
  info.size = 6;
  info.sample = {DType::kUint8, data};
  info.axes = axes;
  return fit_sample(info, input(DType::kFloat32, model));
}

std::string refusal(const Shape& data, ImageAxes axes, const Shape& model) {
  return error_of([&] { fit(data, axes, model); });
}

TEST(Fit, equal_shapes_and_symbols_need_nothing) {
  Fit f = fit({3, 4, 5}, ImageAxes::kUnknown, {kAny, 4, kAny});
  EXPECT_EQ(f.shape, (Shape{3, 4, 5}));
  EXPECT_EQ(f.note, "");
  EXPECT_EQ(fit({4}, ImageAxes::kUnknown, {4}).note, "");
}

TEST(Fit, a_channel_axis_of_one_comes_and_goes_with_a_note_where_it_was_open) {
  Fit first = fit({28, 28}, ImageAxes::kHw, {1, 28, 28});
  EXPECT_EQ(first.shape, (Shape{1, 28, 28}));
  EXPECT_EQ(first.note, "");  // nothing to mistake
  EXPECT_EQ(fit({28, 28, 1}, ImageAxes::kUnknown, {1, 28, 28}).note,
            "d: channel axis moved: samples [28,28,1] go in as [1,28,28]");
  EXPECT_EQ(fit({28, 28}, ImageAxes::kHw, {28, 28, 1}).shape, (Shape{28, 28, 1}));
  EXPECT_EQ(fit({28, 28}, ImageAxes::kHw, {kAny, kAny, kAny}).shape, (Shape{1, 28, 28}));
  EXPECT_EQ(fit({28, 28, 1}, ImageAxes::kUnknown, {1, 28, 28}).shape, (Shape{1, 28, 28}));
  EXPECT_EQ(fit({1, 28, 28}, ImageAxes::kUnknown, {28, 28}).shape, (Shape{28, 28}));
  EXPECT_EQ(fit({28, 28}, ImageAxes::kHw, {784}).shape, (Shape{784}));
}

TEST(Fit, axes_move_only_when_the_source_knows_them) {
  Fit last = fit({3, 32, 32}, ImageAxes::kChw, {32, 32, 3});
  EXPECT_EQ(last.move, AxisMove::kChwToHwc);
  EXPECT_EQ(last.axes, ImageAxes::kHwc);
  Fit first = fit({32, 32, 3}, ImageAxes::kHwc, {3, kAny, kAny});
  EXPECT_EQ(first.move, AxisMove::kHwcToChw);
  EXPECT_EQ(fit({32, 32, 3}, ImageAxes::kHwc, {kAny, kAny, kAny}).move, AxisMove::kHwcToChw);
  EXPECT_EQ(fit({3, 32, 32}, ImageAxes::kChw, {kAny, kAny, kAny}).move, AxisMove::kNone);
  EXPECT_EQ(refusal({32, 32, 3}, ImageAxes::kUnknown, {3, 32, 32}),
            "d: the data has shape [6,32,32,3], but the model's input 'x' takes [N,3,32,32]; the "
            "data looks like NHWC: if so, say --data-layout nhwc");
}

TEST(Fit, other_differences_are_refused_with_both_shapes) {
  EXPECT_EQ(refusal({5}, ImageAxes::kUnknown, {4}),
            "d: the data has shape [6,5], but the model's input 'x' takes [N,4]");
  EXPECT_NE(refusal({28, 28}, ImageAxes::kHw, {3, 28, 28}), "no error");
  EXPECT_NE(refusal({28, 28}, ImageAxes::kHw, {1, 32, 32}), "no error");
  EXPECT_NE(refusal({3, 32, 32}, ImageAxes::kChw, {3072}), "no error");
  EXPECT_NE(refusal({784}, ImageAxes::kUnknown, {1, 28, 28}), "no error");
  EXPECT_EQ(refusal({6, 1}, ImageAxes::kUnknown, {6}),
            "d: the data has shape [6,6,1], but the model's input 'x' takes [N,6]; if one row of "
            "values is meant, save x.reshape(len(x), -1)");
}

std::shared_ptr<const Dataset> source(Tensor samples, Tensor labels,
                                      ImageAxes axes = ImageAxes::kUnknown) {
  DatasetInfo info;
  info.name = "d";
  info.axes = axes;
  return std::make_shared<ArrayDataset>(Arrays{std::move(samples), std::move(labels), {}}, info);
}

Tensor filled(const Dataset& data, const std::vector<int64_t>& indices) {
  Shape shape{static_cast<int64_t>(indices.size())};
  const Shape& sample = data.info().sample.shape;
  shape.insert(shape.end(), sample.begin(), sample.end());
  Tensor out(data.info().sample.dtype, shape);
  data.fill(indices, 0, out.mutable_bytes(), {});
  return out;
}

TEST(Adapt, chosen_samples_are_scaled_and_normalised_per_channel) {
  // Two images of 1 x 2 pixels, RGB last.
  auto data = source(Tensor::of<uint8_t>({2, 1, 2, 3}, {0, 51, 255, 255, 51, 0,  //
                                                        51, 51, 51, 0, 0, 0}),
                     Tensor::of<uint8_t>({2}, {7, 8}), ImageAxes::kHwc);
  AdaptOptions options;
  options.normalize = {{0.f, 0.2f, 1.f}, {1.f, 1.f, 0.5f}};
  options.label = RowType{DType::kInt64, {}};
  auto adapted = adapt(data, input(DType::kFloat32, {3, 1, 2}), options);
  EXPECT_EQ(filled(*adapted, {1, 0}).to_doubles(),
            (std::vector<double>{0.2f, 0, 0.f, -0.2f, -1.6f, -2,  //
                                 0, 1, 0.f, 0.f, 0, -2}));
  EXPECT_EQ(adapted->info().notes.size(), 1u);
  std::vector<int64_t> labels(2);
  std::vector<float> samples(12);
  adapted->fill(std::vector<int64_t>{1, 0}, 0, std::as_writable_bytes(std::span(samples)),
                std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(labels, (std::vector<int64_t>{8, 7}));
}

TEST(Adapt, raw_pixels_and_byte_inputs_stay_as_they_are) {
  auto data = source(Tensor::of<uint8_t>({1, 2}, {3, 200}), {});
  AdaptOptions raw;
  raw.scale = PixelScale::kRaw;
  EXPECT_EQ(filled(*adapt(data, input(DType::kFloat32, {2}), raw), {0}).to_doubles(),
            (std::vector<double>{3, 200}));
  EXPECT_EQ(filled(*adapt(data, input(DType::kUint8, {2}), {}), {0}).to_doubles(),
            (std::vector<double>{3, 200}));
}

TEST(Adapt, bytes_of_an_npz_file_that_are_divided_give_a_note) {
  DatasetInfo info;
  info.name = "npz:d.npz (train)";
  const auto data =
      std::make_shared<ArrayDataset>(Arrays{Tensor::of<uint8_t>({1, 2}, {3, 200}), {}, {}}, info);
  const auto notes = [&](DType to, const AdaptOptions& options) {
    return adapt(data, input(to, {2}), options)->info().notes;
  };
  EXPECT_EQ(notes(DType::kFloat32, {}),
            (std::vector<std::string>{"npz:d.npz (train): the samples are uint8 and are divided by "
                                      "255; --raw-pixels keeps 0 to 255"}));
  AdaptOptions raw;
  raw.scale = PixelScale::kRaw;
  EXPECT_TRUE(notes(DType::kFloat32, raw).empty());
  EXPECT_TRUE(notes(DType::kUint8, {}).empty());
}

TEST(Adapt, one_mean_serves_all_channels_that_move) {
  auto data = source(Tensor::of<float>({1, 2, 1, 2}, {1, 2, 3, 4}), {}, ImageAxes::kChw);
  AdaptOptions options;
  options.normalize = {{1.f}, {2.f}};
  auto adapted = adapt(data, input(DType::kFloat32, {1, 2, 2}), options);
  EXPECT_EQ(filled(*adapted, {0}).to_doubles(), (std::vector<double>{0, 1, 0.5, 1.5}));
}

TEST(Adapt, means_find_the_channel_axis_or_are_refused) {
  auto wide = source(Tensor::of<float>({1, 2, 1, 1}, {5, 7}), {});
  AdaptOptions two;
  two.normalize = {{1.f, 2.f}, {1.f, 1.f}};
  EXPECT_EQ(filled(*adapt(wide, input(DType::kFloat32, {2, 1, 1}), two), {0}).to_doubles(),
            (std::vector<double>{4, 5}));
  auto features = source(Tensor::of<float>({1, 2}, {5, 7}), {});
  EXPECT_EQ(filled(*adapt(features, input(DType::kFloat32, {2}), two), {0}).to_doubles(),
            (std::vector<double>{4, 5}));
  auto square = source(Tensor::of<float>({1, 2, 1, 2}, {1, 2, 3, 4}), {});
  auto refuse = [&](const std::shared_ptr<const Dataset>& data, const Shape& shape,
                    AdaptOptions options, DType dtype = DType::kFloat32) {
    return error_of([&] { adapt(data, input(dtype, shape), options); });
  };
  EXPECT_NE(refuse(square, {2, 1, 2}, two).find("first or the last axis"), std::string::npos);
  AdaptOptions three;
  three.normalize = {{1.f, 2.f, 3.f}, {1.f, 1.f, 1.f}};
  EXPECT_NE(refuse(square, {2, 1, 2}, three).find("fits no channel axis"), std::string::npos);
  AdaptOptions zero;
  zero.normalize = {{0.f}, {0.f}};
  EXPECT_NE(refuse(square, {2, 1, 2}, zero).find("not a positive number"), std::string::npos);
  auto bytes = source(Tensor::of<uint8_t>({1, 2}, {3, 200}), {});
  EXPECT_NE(refuse(bytes, {2}, two, DType::kUint8).find("needs a floating input"),
            std::string::npos);
}

TEST(Adapt, types_that_lose_information_are_refused) {
  auto floats = source(Tensor::of<float>({1, 2}, {1.5f, 2}), Tensor::of<float>({1}, {1.f}));
  EXPECT_EQ(error_of([&] { adapt(floats, input(DType::kInt64, {2}), {}); }),
            "d: the samples are float[2], but the model's input 'x' takes int64[N,2]");
  AdaptOptions classes;
  classes.label = RowType{DType::kInt64, {}};
  EXPECT_EQ(error_of([&] { adapt(floats, input(DType::kFloat32, {2}), classes); }),
            "d: labels are float[1], expected integers. All values are whole numbers: save them as "
            "int64, with .astype(np.int64); if they are values and no classes, give --loss mse");
  auto halves = source(Tensor::of<float>({2, 1}, {1, 2}), Tensor::of<float>({2}, {1.f, 1.5f}));
  EXPECT_EQ(
      error_of([&] { adapt(halves, input(DType::kFloat32, {1}), classes); }),
      "d: label 1.5 at index 1 is not a class number; labels are float[2], expected integers; "
      "if they are values and no classes, give --loss mse");
  auto one_hot = source(Tensor::of<float>({1, 2}, {1, 2}), Tensor::of<float>({1, 2}, {0.f, 1.f}));
  classes.label = RowType{DType::kInt64, {2}};
  EXPECT_NE(error_of([&] {
              adapt(one_hot, input(DType::kFloat32, {2}), classes);
            }).find("if they are one-hot, give class indices, as labels.argmax(axis=1) does"),
            std::string::npos);
  auto tokens = source(Tensor::of<int64_t>({2, 2}, {1, 2, 3, int64_t{1} << 31}), {});
  EXPECT_EQ(error_of([&] { adapt(tokens, input(DType::kInt32, {2}), {}); }),
            "d: sample 1 holds 2147483648, which does not fit int32");
  auto large = source(Tensor::of<uint64_t>({2, 1}, {1, uint64_t{1} << 63}), {});
  EXPECT_EQ(error_of([&] { adapt(large, input(DType::kInt64, {1}), {}); }),
            "d: sample 1 holds 9223372036854775808, which does not fit int64");
  EXPECT_EQ(filled(*adapt(tokens, input(DType::kInt64, {2}), {}), {1}).to_ints(),
            (std::vector<int64_t>{3, int64_t{1} << 31}));
}

TEST(Adapt, labels_of_one_column_are_class_numbers) {
  auto data = source(Tensor::of<float>({2, 1}, {1, 2}), Tensor::of<uint8_t>({2, 1}, {4, 5}));
  AdaptOptions options;
  options.label = RowType{DType::kInt64, {}};
  auto adapted = adapt(data, input(DType::kFloat32, {1}), options);
  int64_t room = 0;
  adapted->label(1, std::as_writable_bytes(std::span(&room, 1)));
  EXPECT_EQ(room, 5);
  options.label = RowType{DType::kInt64, {2}};
  EXPECT_EQ(error_of([&] { adapt(data, input(DType::kFloat32, {1}), options); }),
            "d: a label is uint8[1], but the loss takes int64[2]");
}

TEST(Adapt, counts_must_agree_and_data_must_be_there) {
  EXPECT_EQ(error_of([] {
              source(Tensor::of<float>({2, 1}, {1, 2}), Tensor::of<int64_t>({1}, {0}));
            }),
            "2 samples in d, but 1 labels in d: the counts must agree");
  EXPECT_NE(error_of([] {
              source(Tensor(DType::kFloat32, {0, 3}), {});
            }).find("0 samples"),
            std::string::npos);
}

TEST(Adapt, normalize_is_read_as_means_then_deviations) {
  Normalize one = parse_normalize("0.1307,0.3081");
  EXPECT_EQ(one.mean, (std::vector<float>{0.1307f}));
  EXPECT_EQ(one.std, (std::vector<float>{0.3081f}));
  Normalize three = parse_normalize("1,2,3,4,5,6");
  EXPECT_EQ(three.mean, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(three.std, (std::vector<float>{4, 5, 6}));
  for (std::string bad : {"", "1", "1,", ",1", "1,x", "1,2,3", "1, 2"}) {
    EXPECT_NE(error_of([&] { parse_normalize(bad); }).find("--normalize"), std::string::npos)
        << bad;
  }
}

}  // namespace
}  // namespace sardonyx::runtime
