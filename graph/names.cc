#include "graph/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace sardonyx::graph {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Levenshtein: insertions, deletions and substitutions that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      const size_t substituted = diagonal + (a[i - 1] == b[k - 1] ? 0 : 1);
      diagonal = row[k];
      row[k] = std::min({substituted, row[k] + 1, row[k - 1] + 1});
    }
  }
  return row[b.size()];
}

// As edit_distance, but two neighbours that changed places count as one edit.
size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        d[i][k] = i + k;
        continue;
      }
      const size_t other = a[i - 1] == b[k - 1] ? 0 : 1;
      d[i][k] = std::min({d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + other});
      const bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (swapped) d[i][k] = std::min(d[i][k], d[i - 2][k - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string fresh_name(const Graph& graph, std::string_view wish) {
  if (wish.empty()) wish = "value";
  if (graph.find(wish) == nullptr) return std::string(wish);
  auto cached = graph.first_suffix_.find(wish);
  if (cached == graph.first_suffix_.end()) {
    cached = graph.first_suffix_.emplace(std::string(wish), 1).first;
  }
  for (int64_t& suffix = cached->second;; ++suffix) {
    std::string name = fmt::format("{}.{}", wish, suffix);
    if (graph.find(name) == nullptr) return name;
  }
}

std::vector<std::string> near_names(std::string_view name,
                                    const std::vector<std::string>& candidates, size_t limit) {
  // Case is no distance at all; a third of the letters may be wrong; names that contain one another
  // come last.
  const std::string wanted = lower(name);
  const size_t close = std::max<size_t>(2, name.size() / 3);
  std::vector<std::pair<size_t, const std::string*>> found;
  for (const std::string& candidate : candidates) {
    const std::string other = lower(candidate);
    const size_t longer = std::max(wanted.size(), other.size());
    const size_t gap = longer - std::min(wanted.size(), other.size());
    const size_t distance = gap <= close ? edit_distance(wanted, other) : longer;
    if (distance <= close && distance < longer) {
      found.emplace_back(distance, &candidate);
    } else if (!wanted.empty() && !other.empty() &&
               (other.find(wanted) != std::string::npos ||
                wanted.find(other) != std::string::npos)) {
      found.emplace_back(close + gap, &candidate);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(limit, found.size()); ++i) out.push_back(*found[i].second);
  return out;
}

std::vector<std::string> misspelt(std::string_view word,
                                  const std::vector<std::string>& candidates) {
  const std::string wanted = lower(word);
  const size_t most = wanted.size() < 4 ? 0 : wanted.size() < 6 ? 1 : 2;
  std::vector<std::string> out;
  for (const std::string& candidate : candidates) {
    const std::string other = lower(candidate);
    if (wanted.empty() || other.empty() || wanted[0] != other[0]) continue;
    if (slips(wanted, other) <= most) out.push_back(candidate);
  }
  return out;
}

bool glob_match(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;  // the last star seen and where its match ends
  size_t star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace sardonyx::graph
