// Small helpers for text that a user typed or reads: numbers, lists, "did you mean", byte counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::runtime {

// Parts between separators; "" gives none, "a,,b" gives an empty part.
std::vector<std::string> split(std::string_view text, char separator);
// A whole decimal number ("0.1", "-3", "1e-4"), finite; nothing else around it.
std::optional<double> parse_number(const std::string& text);
// A whole number, decimal digits with perhaps a minus: no 0x10, no 1e3; nothing when it doesn't
// fit.
std::optional<int64_t> parse_whole(const std::string& text);
std::optional<uint64_t> parse_unsigned(const std::string& text);
// Bytes as a user writes them: "8388608", "8M", "8MiB", "1.5 GiB". K, M, G and T are 2^10, 2^20,
// 2^30 and 2^40; what is left of a byte is dropped. Nothing for anything else, "8MB" (which might
// mean 10^6) and what doesn't fit included.
std::optional<int64_t> parse_bytes(std::string_view text);
// " (did you mean sgd?)", or "" when no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);
// The same bytes.
std::string_view as_text(std::span<const std::byte> bytes);
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

// Shortest, as fmt does it; a NaN without its sign, which means nothing.
std::string number_str(double value);
// "0.4321"; "1.5e+30" from a million on.
std::string loss_str(double value);
// "512 B", "1.5 MiB".
std::string bytes_str(double bytes);
// "0.8 s", "1:05", "2:03:04".
std::string duration_str(double seconds);
// "1234567" as "1 234 567".
std::string count_str(int64_t count);

}  // namespace sardonyx::runtime
