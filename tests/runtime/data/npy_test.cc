// .npy and .npz: types, orders, archives, damage.
#include "runtime/data/npy.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "runtime/data/npy_header.h"
#include "tests/runtime/data/files.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using testing::error_of;
using testing::npy_file;
using ::testing::Test;
using testing::write_file;
using testing::zip_file;

class Npy : public Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) {
    return write_file(folder_.path() / name, bytes);
  }
  testing::TemporaryFolder folder_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Npy, every_numeric_type_in_both_byte_orders) {
  struct Row {
    std::string type;
    DType dtype;
    std::string little;
    double value;
  };
  const Row rows[] = {
      {"i1", DType::kInt8, "\xff", -1},
      {"u1", DType::kUint8, "\xff", 255},
      {"b1", DType::kBool, "\x01", 1},
      {"i2", DType::kInt16, std::string("\x01\xff", 2), -255},
      {"u2", DType::kUint16, std::string("\x01\xff", 2), 65281},
      {"i4", DType::kInt32, std::string("\x02\x00\x01\x00", 4), 65538},
      {"u4", DType::kUint32, std::string("\x00\x00\x00\x80", 4), 2147483648.0},
      {"i8", DType::kInt64, std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8), -2},
      {"u8", DType::kUint64, std::string("\0\0\0\0\x01\0\0\0", 8), 4294967296.0},
      {"f2", DType::kFloat16, std::string("\x00\x3e", 2), 1.5},
      {"f4", DType::kFloat32, std::string("\x00\x00\x20\xc0", 4), -2.5},
      {"f8", DType::kFloat64, std::string("\0\0\0\0\0\0\xf8\x3f", 8), 1.5},
  };
  for (const Row& row : rows) {
    std::string big(row.little.rbegin(), row.little.rend());
    Tensor little = read_npy(file("l.npy", npy_file("<" + row.type, "(1,)", row.little)));
    Tensor swapped = read_npy(file("b.npy", npy_file(">" + row.type, "(1,)", big)));
    EXPECT_EQ(little.dtype(), row.dtype) << row.type;
    EXPECT_EQ(little.as_double(0), row.value) << row.type;
    EXPECT_TRUE(swapped.identical(little)) << row.type;
  }
}

TEST_F(Npy, complex_numbers_swap_their_parts_one_by_one) {
  std::string one("\x3f\x80\x00\x00", 4);
  std::string two("\x40\x00\x00\x00", 4);
  Tensor tensor = read_npy(file("c.npy", npy_file(">c8", "(1,)", one + two)));
  EXPECT_EQ(tensor.dtype(), DType::kComplex64);
  std::string expected("\x00\x00\x80\x3f\x00\x00\x00\x40", 8);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor.bytes().data()), 8), expected);
}

TEST_F(Npy, fortran_order_of_big_endian_data) {
  std::string data;
  for (char c : {1, 4, 2, 5, 3, 6}) data += std::string{'\0', c};
  std::string header = "{'descr':'>i2','fortran_order':True,'shape':(2,3)}";
  Tensor tensor = read_npy(file("f.npy", npy_file(header, data)));
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensor.to_ints(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Npy, python_2_long_integers_in_the_shape) {
  Tensor tensor = read_npy(file("l.npy", npy_file("|u1", "(2L, 1L)", "ab")));
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 1}));
}

TEST_F(Npy, unsupported_types_are_named_with_the_supported_ones) {
  for (std::string type : {"<f16", "|S3", "<U2", "<M8[ns]", "|V2", "|i4", "f4"}) {
    std::string message = error_of([&] { read_npy(file("t.npy", npy_file(type, "(0,)", ""))); });
    EXPECT_TRUE(holds(message, "'" + type + "'") && holds(message, "f8")) << message;
  }
  std::string header = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}";
  EXPECT_TRUE(
      holds(error_of([&] { read_npy(file("r.npy", npy_file(header, "1234"))); }), "structured"));
}

TEST_F(Npy, bool_bytes_other_than_0_and_1_are_refused) {
  std::string message =
      error_of([&] { read_npy(file("b.npy", npy_file("|b1", "(2,)", "\x01\x02"))); });
  EXPECT_TRUE(holds(message, "value 2 of a bool array at offset")) << message;
}

TEST_F(Npy, a_bad_header_says_where_and_what) {
  struct Row {
    std::string header;
    std::string words;
  };
  const Row rows[] = {
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "expected True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "below 2^63"},
      {"{'descr': '<f4', 'fortran_order': False}", "lacks 'shape'"},
      {"{'fortran_order': False, 'shape': ()}", "lacks 'descr'"},
      {"{'descr': '<f4', 'descr': '<f4'}", "one each of"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "the end of the header"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "expected '('"},
      {"{'descr': '<f4", "expected a closed string"},
  };
  for (const Row& row : rows) {
    std::string message = error_of([&] { read_npy(file("h.npy", npy_file(row.header, ""))); });
    EXPECT_TRUE(holds(message, "h.npy") && holds(message, row.words)) << message;
  }
}

TEST_F(Npy, an_empty_array_of_huge_dimensions_is_no_overflow) {
  const std::string path = file("e.npy", npy_file("<f4", "(0, 4611686018427387904, 4)", ""));
  EXPECT_TRUE(holds(error_of([&] { read_npy(path); }),
                    "e.npy: the header declares float[0,4611686018427387904,4]: more than 2^62"));
  EXPECT_EQ(read_npy(file("f.npy", npy_file("<f4", "(0, 1152921504606846976)", ""))).numel(), 0);
}

TEST_F(Npy, trailing_bytes_are_counted) {
  EXPECT_TRUE(holds(error_of([&] { read_npy(file("t.npy", npy_file("|u1", "(2,)", "abc"))); }),
                    "1 trailing bytes"));
}

TEST_F(Npy, unaligned_data_is_copied_not_misread) {
  // Headers of all lengths, so the data stands at every address modulo 8.
  for (int blanks = 0; blanks < 8; ++blanks) {
    std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}";
    header += std::string(static_cast<size_t>(blanks), ' ');
    std::string path = file("a.npy", npy_file(header, std::string("\x07\0\0\0\0\0\0\0", 8)));
    EXPECT_EQ(read_npy(path).data<int64_t>()[0], 7);
  }
}

TEST_F(Npy, npz_members_stored_deflated_and_zip64) {
  std::string a = npy_file("|u1", "(3,)", "abc");
  std::string b = npy_file("<i2", "(2,)", std::string("\x01\0\x02\0", 4));
  std::string c = npy_file("|u1", "(1000,)", std::string(1000, 'z'));
  std::string path =
      file("d.npz",
           zip_file({{"a.npy", a}, {"b.npy", b, 8}, {"c.npy", c, 8, true}, {"d.npy", a, 0, true}}));
  std::vector<NamedArray> arrays = read_npz(path);
  ASSERT_EQ(arrays.size(), 4u);
  EXPECT_EQ(arrays[0].name, "a");
  EXPECT_EQ(arrays[0].array.to_ints(), (std::vector<int64_t>{'a', 'b', 'c'}));
  EXPECT_EQ(arrays[1].array.to_ints(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(arrays[2].array.to_ints(), std::vector<int64_t>(1000, 'z'));
  EXPECT_EQ(arrays[3].name, "d");
}

TEST_F(Npy, npz_damage_is_found_by_checksum) {
  for (int method : {0, 8}) {
    std::string archive = zip_file({{"a.npy", npy_file("|u1", "(3,)", "abc"), method}});
    std::string name = "a.npy";
    size_t at = archive.find(name) + name.size() + (method == 0 ? 90 : 40);
    archive[at] = static_cast<char>(archive[at] ^ 1);
    std::string message = error_of([&] { read_npz(file("d.npz", archive)); });
    EXPECT_TRUE(holds(message, "d.npz: a.npy: ") &&
                (holds(message, "checksum") || holds(message, "corrupt")))
        << message;
  }
}

TEST_F(Npy, npz_of_other_things_is_refused) {
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("e.npz", "")); }), "empty file (0 bytes)"));
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("t.npz", "hello")); }), "not a zip archive"));
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("n.npz", zip_file({}))); }), "archive is empty"));
  std::string text = zip_file({{"readme.txt", "hi"}});
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("r.npz", text)); }), "'readme.txt'"));
  std::string method = zip_file({{"a.npy", "hi", 12}});
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("m.npz", method)); }), "method 12"));
}

TEST_F(Npy, a_decompression_bomb_is_refused_unread) {
  std::string archive = zip_file({{"a.npy", std::string(1000, '\0'), 8}});
  // The directory claims 2 GiB (little-endian size at offset 24 of the entry).
  size_t entry = archive.find("PK\x01\x02");
  archive.replace(entry + 24, 4, std::string("\0\0\0\x80", 4));
  EXPECT_TRUE(holds(error_of([&] { read_npz(file("b.npz", archive)); }), "cannot hold more than"));
}

TEST_F(Npy, damaged_files_end_in_an_error_or_in_an_array) {
  std::string array = npy_file(">f4", "(2, 3)", std::string(24, 'x'));
  std::string archive = zip_file({{"a.npy", array, 8}, {"b.npy", array, 0, true}});
  for (size_t at = 0; at < array.size(); ++at) {
    EXPECT_THROW(read_npy(file("c.npy", array.substr(0, at))), Error) << at;
    for (int value : {0x28, 0xff}) {
      std::string bad = array;
      bad[at] = static_cast<char>(value);
      std::string path = file("b.npy", bad);
      try {
        EXPECT_LE(read_npy(path).bytes().size(), 24u);
      } catch (const Error&) {
      }
    }
  }
  for (size_t at = 0; at < archive.size(); ++at) {
    EXPECT_THROW(read_npz(file("c.npz", archive.substr(0, at))), Error) << at;
    for (int value : {0, 0xff}) {
      std::string bad = archive;
      bad[at] = static_cast<char>(value);
      std::string path = file("b.npz", bad);
      try {
        EXPECT_LE(read_npz(path).size(), 2u);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx::runtime
