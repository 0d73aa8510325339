// --data values: where files are looked for, what is found, what is said when they are missing.
#include "runtime/data/open.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runtime/data/files.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::idx_header;
using testing::npy_file;
using testing::write_file;

class Open : public ::testing::Test {
 protected:
  // Two samples of 2 x 2 and their labels, under names that start with `stem`.
  void write_pair(const std::string& stem, const std::string& labels,
                  const std::string& ending = "-ubyte") {
    write_file(folder_.path() / (stem + "-images-idx3" + ending),
               idx_header(8, {2, 2, 2}) + "abcdefgh");
    write_file(folder_.path() / (stem + "-labels-idx1" + ending), idx_header(8, {2}) + labels);
  }
  std::shared_ptr<const Dataset> open(const std::string& spec, Split split = Split::kTrain) {
    OpenOptions options;
    options.data_dir = folder_.path().string();
    options.synthetic.sample_shape = {4};
    return open_dataset(spec, split, options);
  }
  std::string refusal(const std::string& spec, Split split = Split::kTrain) {
    return error_of([&] { open(spec, split); });
  }
  std::string path(const std::string& name) { return (folder_.path() / name).string(); }

  testing::TemporaryFolder folder_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Open, fashion_mnist_from_the_system_package) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  auto train = open_dataset("fashion-mnist", Split::kTrain, {});
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(train->info().sample, (RowType{graph::DType::kUint8, {28, 28}}));
  EXPECT_EQ(train->info().name, "fashion-mnist (train)");
  EXPECT_EQ(train->info().classes, 10);
  EXPECT_EQ(train->labels()->as_int(0), 9);
  EXPECT_EQ(train->labels()->as_int(59999), 5);
  int64_t sum = 0;
  for (std::byte b : train->sample({0, 0}, {})) sum += std::to_integer<int64_t>(b);
  EXPECT_EQ(sum, 76247);
  EXPECT_EQ(open_dataset("fashion-mnist", Split::kTest, {})->size(), 10000);
}

TEST_F(Open, mnist_from_a_data_directory_plain_or_dotted) {
  write_pair("train", "\x01\x02");
  write_pair("t10k", "\x03\x04");
  EXPECT_EQ(open("mnist")->labels()->to_ints(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(open("mnist", Split::kTest)->labels()->to_ints(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(open("mnist", Split::kTest)->info().name, "mnist (test)");
  fs::create_directories(folder_.path() / "fashion-mnist");
  fs::rename(path("train-images-idx3-ubyte"), path("fashion-mnist/train-images.idx3-ubyte"));
  fs::rename(path("train-labels-idx1-ubyte"), path("fashion-mnist/train-labels.idx1-ubyte"));
  EXPECT_EQ(open("fashion-mnist")->size(), 2);
}

TEST_F(Open, a_label_that_the_named_set_cannot_have_is_refused) {
  write_pair("train", "\x01\x0a");
  EXPECT_TRUE(holds(refusal("mnist"), "mnist (train): label 10 at index 1 is out of range"));
}

TEST_F(Open, missing_files_are_listed_with_places_and_remedy) {
  std::string message = refusal("fashion-mnist");
  EXPECT_TRUE(holds(message, "train-images-idx3-ubyte, train-labels-idx1-ubyte")) << message;
  EXPECT_TRUE(holds(message, path("fashion-mnist"))) << message;
  EXPECT_TRUE(holds(message, "Debian package dataset-fashion-mnist")) << message;
  EXPECT_TRUE(holds(refusal("cifar10", Split::kTest), "test_batch.bin"));
  write_file(path("data_batch_1"), "x");
  EXPECT_TRUE(holds(refusal("cifar10"), "holds the Python version"));
}

TEST_F(Open, cifar_from_the_unpacked_archive) {
  fs::create_directories(folder_.path() / "cifar-10-batches-bin");
  for (int i = 1; i <= 5; ++i) {
    write_file(path("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin"),
               std::string(1, static_cast<char>(i)) + std::string(3072, 'x'));
  }
  auto data = open("cifar10");
  EXPECT_EQ(data->labels()->to_ints(), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(data->info().axes, ImageAxes::kChw);
  write_file(path("test.bin"), "\x01\x63" + std::string(3072, 'x'));
  EXPECT_EQ(open("cifar100", Split::kTest)->labels()->to_ints(), (std::vector<int64_t>{99}));
}

TEST_F(Open, an_idx_folder_is_read_by_the_words_in_the_names) {
  write_pair("emnist-letters-train", "\x01\x02");
  write_pair("emnist-letters-test", "\x03\x04");
  auto train = open("idx:" + folder_.path().string());
  EXPECT_EQ(train->labels()->to_ints(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(train->info().axes, ImageAxes::kHw);
  EXPECT_EQ(open("idx:" + folder_.path().string(), Split::kTest)->labels()->as_int(0), 3);
  write_pair("emnist-digits-train", "\x05\x06");
  EXPECT_TRUE(holds(refusal("idx:" + folder_.path().string()), "several files"));
  EXPECT_EQ(open("idx:" + path("emnist-digits"))->labels()->as_int(0), 5);
  EXPECT_EQ(open("idx:" + path("emnist-digits"), Split::kTest), nullptr);
}

TEST_F(Open, an_idx_folder_with_one_pair_has_no_test_part) {
  write_pair("my", "\x01\x02", "");
  std::string spec = "idx:" + folder_.path().string();
  EXPECT_EQ(open(spec)->size(), 2);
  EXPECT_EQ(open(spec, Split::kTest), nullptr);
  // Of FILE and FILE.gz the plain one is taken.
  write_file(path("my-labels-idx1.gz"), "broken");
  EXPECT_EQ(open(spec)->size(), 2);
  fs::remove(path("my-images-idx3"));
  EXPECT_TRUE(holds(refusal(spec), "no file for the images of the train part"));
  EXPECT_TRUE(holds(refusal("idx:" + path("none/none")), "there is no folder"));
}

TEST_F(Open, npz_arrays_are_found_by_their_names) {
  std::string x = npy_file("<f4", "(2, 1)", std::string(8, '\0'));
  std::string y = npy_file("|u1", "(2,)", "\x01\x02");
  std::string t = npy_file("|u1", "(2,)", "\x03\x04");
  std::string spec = "npz:" + path("d.npz");
  write_file(path("d.npz"), testing::zip_file({{"images.npy", x}, {"labels.npy", y}}));
  EXPECT_EQ(open(spec)->labels()->as_int(0), 1);
  EXPECT_EQ(open(spec, Split::kTest), nullptr);
  write_file(path("d.npz"),
             testing::zip_file(
                 {{"x_train.npy", x}, {"y_train.npy", y}, {"x_test.npy", x}, {"y_test.npy", t}}));
  EXPECT_EQ(open(spec)->labels()->as_int(0), 1);
  EXPECT_EQ(open(spec, Split::kTest)->labels()->as_int(0), 3);
  write_file(path("d.npz"), testing::zip_file({{"train_images.npy", x}, {"train_labels.npy", y}}));
  EXPECT_EQ(open(spec)->labels()->as_int(0), 1);
  EXPECT_EQ(open(spec, Split::kTest), nullptr);
  write_file(path("d.npz"), testing::zip_file({{"a.npy", x}, {"b.npy", y}}));
  std::string message = refusal(spec);
  EXPECT_TRUE(holds(message, "no array with the samples") && holds(message, "Found: a, b"))
      << message;
}

TEST_F(Open, finite_values_are_checked_when_asked) {
  std::string x = npy_file("<f4", "(2, 1)", std::string("\0\0\0\0\0\0\xc0\x7f", 8));
  std::string y = npy_file("|u1", "(2,)", "\x01\x02");
  write_file(path("d.npz"), testing::zip_file({{"x.npy", x}, {"y.npy", y}}));
  OpenOptions options;
  EXPECT_EQ(open_dataset("npz:" + path("d.npz"), Split::kTrain, options)->size(), 2);
  options.finite = FiniteCheck::kOn;
  std::string message =
      error_of([&] { open_dataset("npz:" + path("d.npz"), Split::kTrain, options); });
  EXPECT_TRUE(holds(message, "samples: value nan at index [1,0] is not finite")) << message;
}

TEST_F(Open, synthetic_takes_a_number) {
  EXPECT_EQ(open("synthetic")->size(), 10000);
  EXPECT_EQ(open("synthetic:64")->size(), 64);
  for (std::string bad : {"synthetic:", "synthetic:0", "synthetic:-4", "synthetic:4k"}) {
    EXPECT_TRUE(holds(refusal(bad), "not a number of samples")) << bad;
  }
}

TEST_F(Open, unknown_values_list_the_known_ones) {
  EXPECT_TRUE(holds(refusal("imagenet"), "expected one of fashion-mnist, mnist"));
  EXPECT_TRUE(holds(refusal("idx:"), "unknown"));
  EXPECT_TRUE(holds(refusal("folder:"), "unknown"));
}

}  // namespace
}  // namespace sardonyx::runtime
