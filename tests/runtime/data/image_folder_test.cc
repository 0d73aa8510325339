#include "runtime/data/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "graph/support/log.h"
#include "graph/tensor.h"
#include "runtime/data/augment.h"
#include "runtime/data/prefetch.h"
#include "tests/runtime/data/files.h"
#include "tests/support/pictures.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using testing::error_of;

class ImageFolderTest : public ::testing::Test {
 protected:
  // A gray picture of one value.
  void put(const std::string& name, char value, int side = 2) const {
    put_bytes(name, testing::png_file({.width = static_cast<uint32_t>(side),
                                       .height = static_cast<uint32_t>(side),
                                       .colour_type = 0},
                                      std::string(static_cast<size_t>(side * side), value)));
  }
  void put_bytes(const std::string& name, const std::string& bytes) const {
    fs::create_directories((root() / name).parent_path());
    testing::write_file(root() / name, bytes);
  }
  fs::path root() const { return folder_.path(); }
  std::string path(const std::string& name) const { return root() / name; }

  std::shared_ptr<const Dataset> open(Split split, const ImageSize& size = {1, 2, 2}) {
    lines_.clear();
    const support::ScopedLogSink sink(
        [&](support::LogLevel, std::string_view line) { lines_.emplace_back(line); });
    return open_image_folder("folder:D", root(), split, size);
  }
  std::string refusal(Split split = Split::kTrain) {
    return error_of([&] { open(split); });
  }
  bool told(const std::string& part) const {
    for (const std::string& line : lines_) {
      if (line.find(part) != line.npos) return true;
    }
    return false;
  }

  // The first byte of each sample, in order.
  static std::vector<int> values(const Dataset& data) {
    std::vector<int> result;
    std::vector<std::byte> room(data.info().sample.bytes());
    for (int64_t i = 0; i < data.size(); ++i) {
      result.push_back(static_cast<int>(data.sample({i, 0}, room)[0]));
    }
    return result;
  }
  static std::vector<int64_t> labels(const Dataset& data) { return data.labels()->to_ints(); }

  testing::TemporaryFolder folder_;
  std::vector<std::string> lines_;
};

TEST_F(ImageFolderTest, classes_and_files_come_in_the_order_of_their_bytes) {
  put("b/2.png", 4);
  put("b/10.png", 3);
  put("a/x.PNG", 2);
  put("B/x.jpeg", 1);
  const auto data = open(Split::kTrain);
  EXPECT_EQ(values(*data), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(labels(*data), (std::vector<int64_t>{0, 1, 2, 2}));
  EXPECT_EQ(data->info().classes, 3);
  EXPECT_EQ(data->info().name, "folder:D (train)");
  EXPECT_EQ(data->info().axes, ImageAxes::kHw);
  EXPECT_EQ(data->info().sample.str(), "uint8[2,2]");
  EXPECT_TRUE(told("folder:D (train): 4 images of 3 classes in ")) << lines_[0];
  EXPECT_EQ(open(Split::kTest), nullptr);
}

TEST_F(ImageFolderTest, nested_folders_follow_the_files_beside_them_as_in_torchvision) {
  put("a/z.png", 1);
  put("a/m/1.png", 2);
  put("a/m-n/1.png", 3);
  put("a/m/k/0.png", 4);
  put("b/1.png", 9);
  // Folders sort as text: "a/m" < "a/m-n" < "a/m/k".
  EXPECT_EQ(values(*open(Split::kTrain)), (std::vector<int>{1, 2, 3, 4, 9}));
}

TEST_F(ImageFolderTest, parts_are_train_and_test_or_val) {
  put("train/cat/1.png", 1);
  put("train/dog/1.png", 2);
  put("val/dog/1.png", 3);
  EXPECT_EQ(values(*open(Split::kTrain)), (std::vector<int>{1, 2}));
  const auto val = open(Split::kTest);
  EXPECT_EQ(values(*val), std::vector<int>{3});
  // Numbered as in the training part, though cat is missing.
  EXPECT_EQ(labels(*val), std::vector<int64_t>{1});
  EXPECT_EQ(val->info().classes, 2);
  put("test/cat/1.png", 4);
  EXPECT_EQ(values(*open(Split::kTest)), std::vector<int>{4});
  open(Split::kTrain);
  EXPECT_TRUE(told("not read, as they are neither the part train nor test (or val): val"));
}

TEST_F(ImageFolderTest, a_class_may_be_called_train) {
  put("bus/1.png", 1);
  put("train/1.png", 2);
  EXPECT_EQ(values(*open(Split::kTrain)), (std::vector<int>{1, 2}));
  EXPECT_EQ(open(Split::kTest), nullptr);
}

TEST_F(ImageFolderTest, other_files_are_left_out_and_counted) {
  put("a/1.png", 1);
  put("a/.hidden.png", 2);
  put("beside.png", 3);
  put_bytes("a/Thumbs.db", "x");
  put_bytes("labels.csv", "x");
  EXPECT_EQ(open(Split::kTrain)->size(), 1);
  EXPECT_TRUE(told("left out 3 files that are not .png, .jpg or .jpeg in a class"));
}

TEST_F(ImageFolderTest, images_beside_the_classes_are_left_out_and_named) {
  put("train/a/1.png", 1);
  put("train/x.png", 2);
  put("test/a/1.png", 3);
  EXPECT_EQ(values(*open(Split::kTrain)), std::vector<int>{1});
  EXPECT_TRUE(
      told("folder:D (train): left out 1 image beside the class folders, which has no "
           "class: " +
           path("train/x.png") + "; move it into the folder of a class, or away"));
  put("train/y.png", 2);
  EXPECT_EQ(open(Split::kTrain)->info().classes, 1);
  EXPECT_TRUE(told("left out 2 images beside the class folders, which have no class: "));
  EXPECT_EQ(values(*open(Split::kTest)), std::vector<int>{3});
  // With a class beside it, train may be a class, too.
  put("bus/1.png", 4);
  EXPECT_EQ(refusal(), "folder:D: there is a part " + path("test") +
                           " but no part train with the same classes; " + path("train/x.png") +
                           " beside its folders makes it look like a class: move the images there "
                           "into a class, or away");
  fs::remove_all(root() / "test");
  EXPECT_EQ(open(Split::kTrain)->info().classes, 2);
}

TEST_F(ImageFolderTest, links_to_files_and_folders_are_followed_but_not_in_a_circle) {
  put("a/1.png", 1);
  put("store/2.png", 2);
  fs::create_directories(root() / "b");
  fs::create_symlink(root() / "store/2.png", root() / "b/2.png");
  fs::create_directory_symlink(root() / "store", root() / "c");
  EXPECT_EQ(values(*open(Split::kTrain)), (std::vector<int>{1, 2, 2, 2}));
  fs::create_directory_symlink(root() / "a", root() / "a/again");
  EXPECT_EQ(refusal(), path("a/again") + ": this link leads to a folder that it lies in");
}

TEST_F(ImageFolderTest, pictures_are_brought_to_the_size_and_channels_of_the_input) {
  put_bytes("a/1.png", testing::png_file({.width = 5, .height = 5}, testing::picture(5, 5, 3)));
  const auto data = open(Split::kTrain, {3, 2, 2});
  EXPECT_EQ(data->info().axes, ImageAxes::kHwc);
  EXPECT_EQ(data->info().sample.str(), "uint8[2,2,3]");
  std::vector<std::byte> room(12);
  const auto row = data->sample({0, 0}, room);
  std::vector<int> found;
  for (const std::byte b : row) found.push_back(static_cast<int>(b));
  EXPECT_EQ(found, (std::vector<int>{23, 94, 165, 49, 120, 191, 59, 130, 201, 89, 160, 205}));
}

TEST_F(ImageFolderTest, faults_of_the_folders_are_told) {
  EXPECT_EQ(error_of([] {
              open_image_folder("folder:no", "no", Split::kTrain, {1, 2, 2});
            }),
            "folder:no: there is no such folder");
  EXPECT_EQ(refusal(), "folder:D: " + root().string() +
                           " has no sub-folders; expected one a class, as in " + root().string() +
                           "/CLASS/1.png, or the parts train and test with the classes in them");
  put("1.png", 1);
  EXPECT_TRUE(refusal().find(" has no sub-folders, the images lie in it directly; expected") !=
              std::string::npos);
  put("a/1.png", 1);
  fs::create_directories(root() / "b/c");
  EXPECT_EQ(refusal(), path("b") +
                           ": the folder of this class holds no image (.png, .jpg, .jpeg); add "
                           "some or remove it");
}

TEST_F(ImageFolderTest, faults_of_the_parts_are_told) {
  put("test/cat/1.png", 1);
  EXPECT_EQ(refusal(), "folder:D: there is a part " + path("test") +
                           " but no part train with the same classes");
  put("train/dog/1.png", 1);
  put("train/emu/1.png", 1);
  EXPECT_EQ(refusal(Split::kTest),
            path("test/cat") + ": the training part has no such class; its 2 classes: dog, emu");
}

TEST_F(ImageFolderTest, the_first_file_that_is_no_image_is_told_at_opening) {
  for (int i = 0; i < 300; ++i) put("a/" + std::to_string(1000 + i) + ".png", 1);
  put_bytes("a/1150.png", "GIF89a");
  put_bytes("a/1220.png", "");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(refusal(), path("a/1150.png") + ": this is a GIF, expected a PNG or JPEG image");
  }
  fs::remove(root() / "a/1150.png");
  fs::create_symlink("nowhere", root() / "a/1150.png");
  EXPECT_EQ(refusal(), path("a/1150.png") + ": cannot open the file: No such file or directory");
}

TEST_F(ImageFolderTest, a_file_that_ends_early_stops_the_loader_with_its_name) {
  for (int i = 0; i < 8; ++i) put("a/" + std::to_string(i) + ".png", 1, 20);
  const std::string whole = testing::jpeg_file(40, 30, testing::picture(40, 30, 3));
  put_bytes("a/5.png", whole.substr(0, 900));
  const auto data = open(Split::kTrain);
  Prefetcher loader(data, Sampler(8, {4, 0, SampleOrder::kSequential, Tail::kKeep}), {});
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_EQ(error_of([&] { loader.next(); }),
            path("a/5.png") + ": cannot read this JPEG image: Premature end of JPEG file");
}

TEST_F(ImageFolderTest, augmentation_works_as_for_arrays) {
  put_bytes("a/1.png", testing::png_file({.width = 4, .height = 4}, testing::picture(4, 4, 3)));
  const auto data = open(Split::kTrain, {3, 4, 4});
  const auto flipped = augment(data, {.crop = 0, .flip = Flip::kHorizontal}, 1);
  std::vector<std::byte> plain(48), room(48);
  data->sample({0, 0}, plain);
  int mirrored = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto row = flipped->sample({0, epoch}, room);
    if (std::ranges::equal(row, plain)) continue;
    ++mirrored;
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(row[c], plain[9 + c]);
  }
  EXPECT_GT(mirrored, 3);
  EXPECT_LT(mirrored, 17);
}

}  // namespace
}  // namespace sardonyx::runtime
