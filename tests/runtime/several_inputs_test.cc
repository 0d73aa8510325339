// Models of several inputs, and losses inside the file: which arrays data must hold, and that each
// input is fed its own rows.
#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "runtime/data/npy.h"
#include "runtime/trainer.h"
#include "runtime/usage.h"
#include "tests/support/model_sketch.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using testing::error_of;
using testing::ModelSketch;
using testing::TemporaryFolder;
using Numbers = std::vector<double>;
using Arrays = std::map<std::string, Tensor>;

// Scores of the sum over the tokens that the mask leaves, as exporters of transformers name it.
std::string text_model(const std::string& mask_batch = "B") {
  return R"(<ir_version: 8, opset_import: ["" : 17]>
g (int64[B,S] input_ids, int64[)" +
         mask_batch + R"(,S] attention_mask) => (float[B,2] scores)
<float[3,2] table = {1, 0, 0.5, -1, 0, 2}, float[2,2] w = {1, -0.5, 0.25, 1},
 int64[1] last = {-1}, int64[1] steps = {1}> {
  e = Gather(table, input_ids)
  m = Cast<to = 1>(attention_mask)
  u = Unsqueeze(m, last)
  h = Mul(e, u)
  p = ReduceSum<keepdims = 0>(h, steps)
  scores = MatMul(p, w)
})";
}

const Tensor kIds = Tensor::of<int64_t>({4, 3}, {0, 1, 2, 1, 1, 0, 2, 2, 1, 0, 0, 1});
const Tensor kMask = Tensor::of<int64_t>({4, 3}, {1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1});
const Tensor kLabels = Tensor::of<int64_t>({4}, {0, 1, 1, 0});

class SeveralInputs : public ::testing::Test {
 protected:
  void write(const Arrays& arrays) const {
    for (const auto& [name, array] : arrays) write_npy(folder_.path() / (name + ".npy"), array);
  }
  Flags flags() const {
    Flags flags;
    flags.data = "npy:" + folder_.path().string();
    flags.batch = 2;
    flags.lr = 0.5;
    flags.threads = 1;
    flags.shuffle = false;
    return flags;
  }
  static std::unique_ptr<Session> open(const std::string& text, const Flags& flags) {
    return std::make_unique<Session>(graph::Model::from_bytes(ModelSketch(text).bytes()),
                                     session_options(flags));
  }
  // Its states after an epoch.
  static std::unique_ptr<Session> train(const std::string& text, const Flags& flags) {
    auto session = open(text, flags);
    const Feed feed = find_feed(*session, flags);
    const FedData data = open_data(*session, feed, flags, 2, DataUse::kTraining);
    Trainer(*session, feed, data, trainer_options(flags, feed.baked_rows())).run({}, [] {
      return false;
    });
    return session;
  }
  std::string refusal(const std::string& text, const Flags& flags) const {
    return error_of([&] { train(text, flags); });
  }

  TemporaryFolder folder_;
};

TEST_F(SeveralInputs, are_fed_the_rows_of_the_arrays_that_have_their_names) {
  write({{"attention_mask", kMask}, {"input_ids", kIds}, {"labels", kLabels}});
  const Tensor small_mask = kMask.cast(graph::DType::kInt32);
  for (const std::string& text : {text_model(), text_model("masks")}) {
    const auto trained = train(text, flags());
    const auto direct = open(text_model(), flags());
    for (int64_t row = 0; row < 4; row += 2) {
      const auto rows = [&](const Tensor& all) {
        std::vector<int64_t> values = all.to_ints(), shape = all.shape();
        const auto each = static_cast<int64_t>(values.size()) / shape[0];
        shape[0] = 2;
        return Tensor::of<int64_t>(
            shape, {values.begin() + row * each, values.begin() + (row + 2) * each});
      };
      Batch batch{{{"input_ids", rows(kIds)}, {"attention_mask", rows(kMask)}}, rows(kLabels)};
      if (row == 0) {
        direct->describe_data({{"input_ids", {3}}, {"attention_mask", {3}}},
                              graph::TensorType(graph::DType::kInt64, {graph::Dim::named("b")}));
      }
      direct->train_step(batch, {{2}}, 0.5);
    }
    for (const char* name : {"table", "w"}) {
      EXPECT_EQ(trained->state(name).to_doubles(), direct->state(name).to_doubles()) << name;
    }
    EXPECT_NE(trained->state("w").to_doubles(), (Numbers{1, -0.5, 0.25, 1}));
  }
  write({{"attention_mask", small_mask}});  // another integer type is converted
  EXPECT_EQ(refusal(text_model(), flags()), "no error");
}

TEST_F(SeveralInputs, both_parts_are_found_and_evaluated) {
  write({{"attention_mask_train", kMask},
         {"input_ids_train", kIds},
         {"y_train", kLabels},
         {"test_attention_mask", kMask},
         {"test_input_ids", kIds},
         {"test_y", kLabels}});
  const auto session = open(text_model(), flags());
  const Feed feed = find_feed(*session, flags());
  const FedData data = open_data(*session, feed, flags(), 2, DataUse::kTraining);
  // p of the rows: (1.5, -1), (0.5, -1), (0.5, 3), (1.5, -1); scores p w.
  const Tensor scores = predict(*session, feed, data.test, 3, "");
  EXPECT_EQ(scores.to_doubles(), (Numbers{1.25, -1.75, 0.25, -1.25, 1.25, 2.75, 1.25, -1.75}));
}

TEST_F(SeveralInputs, arrays_that_are_missing_or_too_short_are_refused_by_name) {
  write({{"input_ids", kIds}, {"labels", kLabels}});
  const std::string folder = flags().data;
  EXPECT_EQ(refusal(text_model(), flags()),
            folder +
                ": no array with what the input 'attention_mask' takes of the train part. "
                "Accepted: attention_mask; also with _train and _test (or train_ and test_). "
                "Found: input_ids, labels");
  write({{"attention_mask", Tensor::of<int64_t>({1, 3}, {1, 1, 1})}});
  EXPECT_EQ(refusal(text_model(), flags()),
            folder + " (train) has 4 samples, but " + folder +
                ": attention_mask (train) has 1: the counts must agree");
  write({{"attention_mask", Tensor::of<int64_t>({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1})}});
  EXPECT_NE(refusal(text_model(), flags()).find("Mul"), std::string::npos);
}

TEST_F(SeveralInputs, an_array_that_an_input_takes_holds_no_labels) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, float[N,2] y) => (float[N,2] z) <float[2,2] w = {1, 2, 3, 4}> {
  a = MatMul(x, w)
  z = Add(a, y)
})";
  const Tensor rows = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Flags values = flags();
  values.loss = "mse";
  write({{"x", rows}, {"y", rows}});
  EXPECT_EQ(refusal(text, values),
            values.data +
                ": no array with the labels of the train part. Accepted: labels, targets, Y; also "
                "with _train and _test (or train_ and test_). Found: x, y");
  write({{"targets", rows}});
  EXPECT_EQ(refusal(text, values), "no error");
}

TEST_F(SeveralInputs, what_serves_one_input_only_is_refused) {
  write({{"attention_mask", kMask}, {"input_ids", kIds}, {"labels", kLabels}});
  Flags images = flags();
  images.data = "fashion-mnist";
  EXPECT_NE(refusal(text_model(), images)
                .find("--data fashion-mnist has one array of samples, but the model has 2 inputs: "
                      "'input_ids', 'attention_mask'; give npz:FILE or npy:DIR with an array of "
                      "each name"),
            std::string::npos);
  Flags normalized = flags();
  normalized.normalize = "0,1";
  EXPECT_EQ(refusal(text_model(), normalized),
            "--normalize is for models of one input, and this one has 2; prepare the arrays");
  EXPECT_NE(refusal(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, bool[] flag) => (float[N,2] y) { y = Where(flag, x, x) })",
                    flags())
                .find("'flag' has no batch axis: make it a constant of the model"),
            std::string::npos);
}

TEST_F(SeveralInputs, synthetic_integers_are_0_and_1) {
  Flags synthetic = flags();
  synthetic.data = "synthetic:8";
  EXPECT_NE(refusal(text_model(), synthetic).find("needs an input of known size"),
            std::string::npos);
  std::string text = text_model();
  for (size_t at; (at = text.find("B,S]")) != std::string::npos;) text.replace(at, 4, "B,3]");
  const auto session = open(text, synthetic);
  const Feed feed = find_feed(*session, synthetic);
  const FedData data = open_data(*session, feed, synthetic, 2, DataUse::kTraining);
  ASSERT_EQ(data.train->companions().size(), 1u);
  for (const Dataset* set : {data.train.get(), data.train->companions()[0].data.get()}) {
    std::set<int64_t> seen;
    std::vector<int64_t> row(3);
    for (int64_t i = 0; i < 8; ++i) {
      set->fill(std::vector<int64_t>{i}, 0, std::as_writable_bytes(std::span(row)), {});
      seen.insert(row.begin(), row.end());
    }
    EXPECT_EQ(seen, (std::set<int64_t>{0, 1}));
  }
}

TEST_F(SeveralInputs, a_loss_of_the_file_without_labels_needs_none) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float loss) <float[2,2] w = {1, 0, 0, 1}, float[1] one = {1}> {
  h = MatMul(x, w)
  d = Sub(h, x)
  s = Mul(d, d)
  loss = ReduceMean<keepdims = 0>(s)
})";
  Flags own = flags();
  own.loss_output = "loss";
  own.data = "synthetic:4";
  EXPECT_EQ(refusal(text, own), "no error");
  own.data = flags().data;
  write({{"x", Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}});
  EXPECT_EQ(refusal(text, own), "no error");
  write({{"y", Tensor::of<float>({3}, {1, 2, 3})}});  // nobody reads them
  EXPECT_EQ(refusal(text, own), "no error");
}

TEST_F(SeveralInputs, synthetic_labels_are_in_the_range_of_the_loss_of_the_file) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, int64[N,1] label) => (float loss) <float[2,3] w = {1, 0, 0, 1, 1, 1}, int64[1] axis = {1}> {
  h = MatMul(x, w)
  l = Squeeze(label, axis)
  loss = SoftmaxCrossEntropyLoss(h, l)
})";
  Flags own = flags();
  own.loss_output = "loss";
  own.data = "synthetic:9";
  const auto session = open(text, own);
  const Feed feed = find_feed(*session, own);
  EXPECT_EQ(feed.labels_input, "label");
  const FedData data = open_data(*session, feed, own, 3, DataUse::kTraining);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 9; ++i) {
    std::vector<float> x(2);
    int64_t label = -1;
    data.train->fill(std::vector<int64_t>{i}, 0, std::as_writable_bytes(std::span(x)),
                     std::as_writable_bytes(std::span(&label, 1)));
    seen.insert(label);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace sardonyx::runtime
