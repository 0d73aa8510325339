#include "graph/wire.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"

namespace sardonyx::graph::wire {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string error_of(const std::string& text) {
  try {
    Reader reader(bytes_of(text));
    while (reader.next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Wire, reads_every_type_of_field) {
  const std::string text(
      "\x08\x96\x01"  // 1: varint 150
      "\x12\x03"
      "abc"                                    // 2: bytes
      "\x1d\x01\x00\x00\x80"                   // 3: fixed32
      "\x21\x01\x00\x00\x00\x00\x00\x00\x80",  // 4: fixed64
      22);
  Reader reader(bytes_of(text));
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.field().is(1, Type::kVarint));
  EXPECT_EQ(reader.field().value, 150u);
  EXPECT_EQ(reader.field().body, (Span{1, 3}));
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.field().is(2, Type::kBytes));
  EXPECT_EQ(reader.text(), "abc");
  EXPECT_EQ(reader.field().begin, 3u);
  EXPECT_EQ(reader.field().end(), 8u);
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.field().is(3, Type::kFixed32));
  EXPECT_EQ(reader.field().value, 0x80000001u);
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.field().is(4, Type::kFixed64));
  EXPECT_EQ(reader.field().value, 0x8000000000000001u);
  EXPECT_FALSE(reader.next());
}

TEST(Wire, varint_of_ten_bytes_is_the_longest) {
  std::string text = "\x08";
  append_varint(text, UINT64_MAX);
  EXPECT_EQ(text.size(), 11u);
  Reader reader(bytes_of(text));
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field().value, UINT64_MAX);
  EXPECT_EQ(error_of("\x08" + std::string(10, '\xff') + "\x01"),
            "corrupt: the number at byte 1 is longer than 64 bits");
}

TEST(Wire, length_beyond_the_end_is_refused_with_both_numbers) {
  EXPECT_EQ(error_of("\x12\x05"
                     "abc"),
            "truncated or corrupt: field 2 at byte 0 needs 5 bytes, but 3 are left");
  std::string huge = "\x12";
  append_varint(huge, UINT64_MAX);
  EXPECT_EQ(
      error_of(huge),
      "truncated or corrupt: field 2 at byte 0 needs 18446744073709551615 bytes, but 0 are left");
}

TEST(Wire, cut_numbers_field_zero_and_groups_are_refused) {
  EXPECT_EQ(error_of("\x08"), "truncated or corrupt: the number at byte 1 is cut short");
  EXPECT_EQ(error_of("\x08\x80"), "truncated or corrupt: the number at byte 1 is cut short");
  EXPECT_EQ(error_of(std::string("\x00\x00", 2)),
            "corrupt: no field of a protobuf message starts at byte 0");
  EXPECT_EQ(error_of("\x0b\x0c"),
            "corrupt: field 1 at byte 0 has the wire type 3, which ONNX files don't use");
}

TEST(Wire, written_fields_read_back) {
  std::string text;
  append_tag(text, 300, Type::kVarint);
  append_varint(text, 1u << 31);
  append_bytes(text, 16, std::string(200, 'x'));
  Reader reader(bytes_of(text));
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field().number, 300u);
  EXPECT_EQ(reader.field().value, 1u << 31);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.text(), std::string(200, 'x'));
}

TEST(Rope, joins_neighbours_and_keeps_owned_bytes_alive) {
  const std::string file = "abcdef";
  Rope inner;
  inner.add(std::string("12"));
  Rope rope;
  rope.add_view(std::string_view(file).substr(0, 2));
  rope.add_view(std::string_view(file).substr(2, 2));
  EXPECT_EQ(rope.pieces().size(), 1u);
  rope.add(std::move(inner));
  rope.add_view(std::string_view(file).substr(4));
  EXPECT_EQ(rope.size(), 8u);
  EXPECT_EQ(rope.str(), "abcd12ef");
}

}  // namespace
}  // namespace sardonyx::graph::wire
