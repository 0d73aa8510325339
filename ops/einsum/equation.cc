// Reads "ij,jk->ik" and its kin.
#include <algorithm>
#include <map>
#include <optional>

#include "ops/core/constraint.h"
#include "ops/einsum/einsum.h"

namespace sardonyx::ops::einsum {

namespace {

// Letters in front of and behind the one "..." of a term.
struct Term {
  std::string before, behind;
  bool ellipsis = false;

  int letters() const { return static_cast<int>(before.size() + behind.size()); }
};

constexpr const char* kEllipsis = "...";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Term read_term(const std::string& text, const std::string& equation) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_letter(text[i])) {
      (term.ellipsis ? term.behind : term.before) += text[i];
    } else if (text.compare(i, 3, kEllipsis) == 0 && !term.ellipsis) {
      term.ellipsis = true;
      i += 2;
    } else {
      throw ConstraintError("E1",
                            "the equation \"{}\" has \"{}\" in a term, expected letters and "
                            "at most one \"...\"",
                            equation, text.substr(i));
    }
  }
  return term;
}

std::vector<Term> read_terms(std::string text, const std::string& equation) {
  std::vector<Term> terms;
  for (size_t comma = 0; comma != std::string::npos;) {
    comma = text.find(',');
    terms.push_back(read_term(text.substr(0, comma), equation));
    if (comma != std::string::npos) text = text.substr(comma + 1);
  }
  return terms;
}

// `axes`: how many the "..." of this term stands for, of `most` in the equation.
Labels labels_of(const Term& term, int axes, int most) {
  Labels labels(term.before.begin(), term.before.end());
  if (term.ellipsis) {
    for (int i = most - axes; i < most; ++i) labels.push_back(kFirstEllipsis + i);
  }
  labels.insert(labels.end(), term.behind.begin(), term.behind.end());
  return labels;
}

// The axes of "...", then the letters that occur once, in the order of their codes.
Labels implied(const std::vector<Term>& terms, int most) {
  std::map<char, int> count;
  for (const Term& term : terms) {
    for (const char letter : term.before + term.behind) ++count[letter];
  }
  Labels labels;
  for (int i = 0; i < most; ++i) labels.push_back(kFirstEllipsis + i);
  for (const auto& [letter, times] : count) {
    if (times == 1) labels.push_back(letter);
  }
  return labels;
}

void check_output(const Equation& equation, const std::string& text) {
  for (const Label label : equation.output) {
    if (std::ranges::count(equation.output, label) > 1) {
      throw ConstraintError("E3", "the output of the equation \"{}\" has {} twice", text,
                            label_name(label));
    }
    const bool known = std::ranges::any_of(equation.inputs, [&](const Labels& labels) {
      return std::ranges::count(labels, label) > 0;
    });
    if (!known) {
      throw ConstraintError("E3", "the output of the equation \"{}\" has {}, which no operand has",
                            text, label_name(label));
    }
  }
}

}  // namespace

std::string label_name(Label label) {
  if (label < kFirstEllipsis) return std::string(1, static_cast<char>(label));
  return fmt::format("axis {} of \"...\"", label - kFirstEllipsis);
}

Equation read_equation(const std::string& text, const std::vector<int>& ranks) {
  std::string packed = text;
  std::erase(packed, ' ');
  const size_t arrow = packed.find("->");
  const std::vector<Term> terms = read_terms(packed.substr(0, arrow), text);
  if (terms.size() != ranks.size()) {
    throw ConstraintError("E2", "the equation \"{}\" has {} terms, but the node has {} operands",
                          text, terms.size(), ranks.size());
  }
  int most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int letters = terms[i].letters();
    if (terms[i].ellipsis ? letters > ranks[i] : letters != ranks[i]) {
      throw ConstraintError("E2", "the equation \"{}\" gives operand {} {}{} axes, but it has {}",
                            text, i, letters, terms[i].ellipsis ? " or more" : "", ranks[i]);
    }
    if (terms[i].ellipsis) most = std::max(most, ranks[i] - letters);
  }
  Equation equation;
  for (size_t i = 0; i < terms.size(); ++i) {
    equation.inputs.push_back(labels_of(terms[i], ranks[i] - terms[i].letters(), most));
  }
  equation.output = arrow == std::string::npos
                        ? implied(terms, most)
                        : labels_of(read_term(packed.substr(arrow + 2), text), most, most);
  check_output(equation, text);
  return equation;
}

}  // namespace sardonyx::ops::einsum
