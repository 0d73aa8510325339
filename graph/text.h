// Spelling shared by everything that writes or reads the text form: which names stand bare, how
// strings are quoted, how floating-point numbers are written so that they read back bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sardonyx::graph {

class Tensor;

// [A-Za-z_][A-Za-z0-9_.]* without a trailing dot: stands without quotes.
bool is_identifier(std::string_view name);
// In double quotes; \" \\ \n \t \xNN. UTF-8 that shows stays as it is (support::character_at).
std::string quote(std::string_view text);
// The name itself if it is an identifier, else quoted.
std::string quote_name(std::string_view name);

// Shortest decimal that reads back as the same number: "1", "0.1", "1e-05", "inf", "-inf", "nan"; a
// NaN other than the default quiet one carries its bits: "nan(0xffc00000)".
std::string float_text(float value);
std::string double_text(double value);

// The elements as "{1, 2.5}"; "{...}" when there are more than `max_elements` (-1: no limit). Half
// floats are written like the float of the same value, complex numbers as pairs.
std::string data_text(const Tensor& tensor, int64_t max_elements);

}  // namespace sardonyx::graph
