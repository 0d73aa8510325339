// CIFAR reader: planes and labels of several files, and messages.
#include "runtime/data/cifar.h"

#include <gtest/gtest.h>

#include "tests/runtime/data/files.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using testing::error_of;
using testing::write_file;

std::string record(const std::string& labels, char pixel) {
  return labels + std::string(3072, pixel);
}

TEST(Cifar, files_are_joined_in_the_given_order) {
  testing::TemporaryFolder folder;
  std::string a = write_file(folder.path() / "a.bin", record("\x09", 'a') + record("\x01", 'b'));
  std::string b = write_file(folder.path() / "b.bin", record("\x05", 'c'));
  Arrays arrays = read_cifar10({b, a});
  EXPECT_EQ(arrays.samples.shape(), (std::vector<int64_t>{3, 3, 32, 32}));
  EXPECT_EQ(arrays.labels.to_ints(), (std::vector<int64_t>{5, 9, 1}));
  EXPECT_EQ(arrays.samples.as_int(0), 'c');
  EXPECT_EQ(arrays.samples.as_int(3072), 'a');
  EXPECT_EQ(arrays.samples.as_int(3 * 3072 - 1), 'b');
  EXPECT_FALSE(arrays.coarse_labels.defined());
}

TEST(Cifar, fine_labels_of_cifar100_come_second) {
  testing::TemporaryFolder folder;
  std::string path = write_file(folder.path() / "t.bin", record("\x13\x63", 'a'));
  Arrays arrays = read_cifar100({path});
  EXPECT_EQ(arrays.labels.to_ints(), (std::vector<int64_t>{99}));
  EXPECT_EQ(arrays.coarse_labels.to_ints(), (std::vector<int64_t>{19}));
}

TEST(Cifar, a_label_out_of_range_names_record_offset_and_range) {
  testing::TemporaryFolder folder;
  std::string path =
      write_file(folder.path() / "t.bin", record("\x01\x01", 'a') + record("\x01\x64", 'a'));
  EXPECT_EQ(error_of([&] { read_cifar100({path}); }),
            path + ": fine label 100 in record 1 (offset 3075) is out of range, expected 0..99");
}

TEST(Cifar, an_empty_file_and_an_empty_list_are_refused) {
  testing::TemporaryFolder folder;
  std::string path = write_file(folder.path() / "t.bin", "");
  EXPECT_NE(error_of([&] { read_cifar10({path}); }).find("empty file (0 bytes)"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_cifar10({}); }).find("0 samples"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::runtime
