// IDX reader: element types, compression, damage.
#include "runtime/data/idx.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "tests/runtime/data/files.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using testing::error_of;
using testing::gzipped;
using testing::idx_header;
using ::testing::Test;
using testing::write_file;

class Idx : public Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) {
    return write_file(folder_.path() / name, bytes);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Idx, every_element_type_is_read_big_endian) {
  struct Row {
    char code;
    DType dtype;
    std::string bytes;
    double value;
  };
  const Row rows[] = {
      {0x08, DType::kUint8, "\xfe", 254},
      {0x09, DType::kInt8, "\xfe", -2},
      {0x0B, DType::kInt16, std::string("\xff\x01", 2), -255},
      {0x0C, DType::kInt32, std::string("\x00\x01\x00\x02", 4), 65538},
      {0x0D, DType::kFloat32, std::string("\xc0\x20\x00\x00", 4), -2.5},
      {0x0E, DType::kFloat64, std::string("\x3f\xf8\0\0\0\0\0\0", 8), 1.5},
  };
  for (const Row& row : rows) {
    std::string bytes = idx_header(row.code, {1}) + row.bytes;
    Tensor plain = read_idx(file("plain", bytes));
    Tensor packed = read_idx(file("packed", gzipped(bytes)));
    EXPECT_EQ(plain.dtype(), row.dtype);
    EXPECT_EQ(plain.as_double(0), row.value);
    EXPECT_TRUE(packed.identical(plain));
  }
}

TEST_F(Idx, joined_gzip_members_are_one_file) {
  std::string path =
      file("two.gz", gzipped(idx_header(8, {4}) + "ab") + gzipped(std::string("cd")));
  Tensor tensor = read_idx(path);
  EXPECT_EQ(tensor.to_ints(), (std::vector<int64_t>{'a', 'b', 'c', 'd'}));
}

TEST_F(Idx, garbage_after_gzip_is_refused) {
  std::string path = file("x.gz", gzipped(idx_header(8, {2}) + "ab") + "tail");
  EXPECT_NE(error_of([&] { read_idx(path); }).find("4 trailing bytes after the compressed data"),
            std::string::npos);
}

TEST_F(Idx, compressed_surplus_is_refused) {
  std::string path = file("x.gz", gzipped(idx_header(8, {2}) + "abc"));
  EXPECT_NE(error_of([&] { read_idx(path); }).find("1 trailing bytes"), std::string::npos);
}

TEST_F(Idx, size_that_the_compressed_bytes_cannot_hold_is_refused_before_allocation) {
  std::string path = file("x.gz", gzipped(idx_header(8, {1u << 31, 1u << 20})));
  EXPECT_NE(error_of([&] { read_idx(path); }).find("cannot hold more than"), std::string::npos);
}

TEST_F(Idx, truncated_file_names_both_sizes) {
  std::string path = file("x", idx_header(8, {3, 4}) + "12345");
  EXPECT_EQ(error_of([&] { read_idx(path); }),
            path +
                ": the header declares uint8[3,4]: 12 bytes of data after 12 bytes of header, 24 "
                "in all; found 17, the file is truncated");
}

TEST_F(Idx, missing_file_and_folder_are_named) {
  std::string missing = (folder_.path() / "none").string();
  EXPECT_EQ(error_of([&] { read_idx(missing); }),
            missing + ": cannot open the file: No such file or directory");
  EXPECT_EQ(error_of([&] { read_idx(folder_.path().string()); }),
            folder_.path().string() + ": is a directory, expected a plain file");
}

// Whatever a damaged file holds: an Error or a tensor, never anything else.
TEST_F(Idx, damaged_files_end_in_an_error_or_in_an_array) {
  const std::string plain = idx_header(0x0C, {2, 3}) + std::string(24, 'x');
  for (const std::string& good : {plain, gzipped(plain)}) {
    for (size_t size = 0; size < good.size(); ++size) {
      std::string path = file("cut", good.substr(0, size));
      EXPECT_THROW(read_idx(path), Error) << size;
    }
    for (size_t at = 0; at < good.size(); ++at) {
      for (int flip : {1, 0x80, 0xff}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        std::string path = file("bad", bad);
        try {
          EXPECT_EQ(read_idx(path).bytes().size(), 24u);
        } catch (const Error&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx::runtime
