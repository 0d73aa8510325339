// Reshape on sizes and symbols: the input's axes are written as factors, outermost first, and the
// target's axes take factors off the front until their size is reached.
#include <algorithm>
#include <charconv>
#include <optional>

#include "graph/support/error.h"
#include "ops/core/constraint.h"
#include "ops/core/sizes.h"
#include "ops/reshape/reshape.h"

namespace sardonyx::ops {

namespace {

// Products of sizes with stand-ins: more than 64 bits.
using Product = unsigned __int128;

// A size that isn't known, or zero, counts as one of these primes: products then still tell which
// axes hold it. More of them would overflow a product.
constexpr int64_t kStandIns[] = {2147483647, 2147483629};

Product times(Product a, Product b) {
  Product result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw Error("the shape has too many elements to count");
  }
  return result;
}

struct Factor {
  int64_t weight = 1;  // size or stand-in
  Dim dim;
};

std::optional<int64_t> as_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

// Factors of a merged axis ("2*N*5"); other axes are one factor.
std::vector<Dim> factors_of(const Dim& dim, const std::string& batch_symbol) {
  if (dim.symbol == batch_symbol || dim.symbol.find('*') == std::string::npos) return {dim};
  std::vector<Dim> parts;
  int64_t numbers = 1;
  std::optional<size_t> named;
  for (size_t begin = 0; begin <= dim.symbol.size();) {
    const size_t end = std::min(dim.symbol.find('*', begin), dim.symbol.size());
    const std::string part = dim.symbol.substr(begin, end - begin);
    if (const auto number = as_number(part)) {
      if (__builtin_mul_overflow(numbers, *number, &numbers)) return {dim};
      parts.emplace_back(*number);
    } else {
      if (named) return {dim};
      named = parts.size();
      parts.push_back(Dim::named(part));
    }
    begin = end + 1;
  }
  if (!named || (dim.known() && dim.value % numbers != 0)) return {dim};
  if (dim.known()) parts[*named].value = dim.value / numbers;
  return parts;
}

Dim product_of(const std::vector<Dim>& factors, const std::string& batch_symbol) {
  if (factors.size() == 1) return factors[0];
  int64_t value = 1;
  for (const Dim& factor : factors) {
    value = factor.known() && value >= 0 ? checked_product(value, factor.value) : -1;
  }
  const auto named = [](const Dim& factor) { return !factor.symbol.empty(); };
  auto kept = std::find_if(factors.begin(), factors.end(), [&](const Dim& factor) {
    return named(factor) && factor.symbol == batch_symbol;
  });
  if (kept == factors.end() && std::count_if(factors.begin(), factors.end(), named) == 1) {
    kept = std::find_if(factors.begin(), factors.end(), named);
  }
  if (kept == factors.end()) return {value};
  std::string symbol;
  int64_t run = 1;
  const auto close_run = [&] {
    if (run != 1) symbol += (symbol.empty() ? "" : "*") + std::to_string(run);
    run = 1;
  };
  for (auto factor = factors.begin(); factor != factors.end(); ++factor) {
    if (factor == kept) {
      close_run();
      symbol += (symbol.empty() ? "" : "*") + factor->symbol;
    } else if (!factor->known()) {
      return {value};
    } else {
      run = checked_product(run, factor->value);
    }
  }
  close_run();
  return {value, symbol};
}

class Regrouping {
 public:
  Regrouping(const std::vector<Dim>& from, const std::vector<TargetAxis>& target,
             const std::string& batch_symbol)
      : from_(from), target_(target), batch_symbol_(batch_symbol) {}

  std::vector<Dim> run() {
    for (const Dim& dim : from_) {
      for (const Dim& factor : factors_of(dim, batch_symbol_)) {
        const int64_t weight = weight_of(factor);
        if (weight < 0) return without_symbols();
        factors_.push_back({weight, factor});
      }
    }
    if (empty_target_ = has_empty_axis(); empty_target_ && empty_stand_in() == 0) {
      if (!unknown()) mismatch(product(factors_), 0);
      return without_symbols();
    }
    const Product in = product(factors_);
    Product out = 1;
    bool rest = false;
    for (const TargetAxis& axis : target_) {
      rest = rest || axis.kind == TargetAxis::Kind::kRest;
      weights_.push_back(axis.kind == TargetAxis::Kind::kRest ? 1 : weight_of_target(axis));
      out = times(out, weights_.back());
    }
    if (rest) {
      require_whole_batch();
      if (in % out != 0) return of_indivisible(in, out);
      for (size_t i = 0; i < target_.size(); ++i) {
        if (target_[i].kind == TargetAxis::Kind::kRest) weights_[i] = in / out;
      }
    } else if (in != out && !bind_unknown(in, out)) {
      return without_symbols();
    }
    return assign();
  }

 private:
  bool unknown() const {
    return std::any_of(stood_for_.begin(), stood_for_.end(),
                       [](const Dim& dim) { return !dim.known(); });
  }

  // -1 when the stand-ins are used up.
  int64_t weight_of(const Dim& dim) {
    if (dim.value > 0) return dim.value;
    for (size_t i = 0; i < stood_for_.size(); ++i) {
      if (!dim.symbol.empty() && stood_for_[i] == dim) return kStandIns[i];
    }
    if (stood_for_.size() == std::size(kStandIns)) return -1;
    stood_for_.push_back(dim);
    return kStandIns[stood_for_.size() - 1];
  }

  Product weight_of_target(const TargetAxis& axis) const {
    if (axis.kind == TargetAxis::Kind::kSize) return axis.size == 0 ? empty_stand_in() : axis.size;
    // The factors of the copied axis stand somewhere in factors_, in order of the axes.
    size_t first = 0;
    for (int64_t i = 0; i < axis.size; ++i) first += factors_of(from_[i], batch_symbol_).size();
    const size_t count = factors_of(from_[axis.size], batch_symbol_).size();
    return product({factors_.begin() + first, factors_.begin() + first + count});
  }

  static Product product(const std::vector<Factor>& factors) {
    Product result = 1;
    for (const Factor& factor : factors) result = times(result, factor.weight);
    return result;
  }

  // The size a weight stands for.
  int64_t value_of(Product weight) const {
    for (size_t i = 0; i < stood_for_.size(); ++i) {
      if (weight % kStandIns[i] == 0) return stood_for_[i].value;
    }
    return static_cast<int64_t>(weight);
  }

  Dim plain(size_t i) const {
    if (target_[i].kind == TargetAxis::Kind::kSize) return {target_[i].size};
    if (target_[i].kind == TargetAxis::Kind::kCopy) return from_[target_[i].size];
    return i < weights_.size() ? Dim(value_of(weights_[i])) : Dim();
  }

  std::vector<Dim> without_symbols() {
    weights_.clear();
    std::vector<Dim> result;
    for (size_t i = 0; i < target_.size(); ++i) result.push_back(plain(i));
    return result;
  }

  std::string target_text() const {
    std::string text;
    for (const TargetAxis& axis : target_) {
      text += text.empty() ? "" : ",";
      if (axis.kind == TargetAxis::Kind::kSize) text += std::to_string(axis.size);
      if (axis.kind == TargetAxis::Kind::kCopy) text += "0";
      if (axis.kind == TargetAxis::Kind::kRest) text += "-1";
    }
    return "[" + text + "]";
  }

  // An axis that is written as size 0 (allowzero).
  bool has_empty_axis() const {
    return std::any_of(target_.begin(), target_.end(), [](const TargetAxis& axis) {
      return axis.kind == TargetAxis::Kind::kSize && axis.size == 0;
    });
  }

  // Of the first input axis of size 0; 0: there is none.
  int64_t empty_stand_in() const {
    for (size_t i = 0; i < stood_for_.size(); ++i) {
      if (stood_for_[i].value == 0) return kStandIns[i];
    }
    return 0;
  }

  std::vector<Dim> of_indivisible(Product in, Product out) {
    if (!unknown() && stood_for_.empty()) mismatch(in, out);
    std::vector<Dim> result = without_symbols();
    for (size_t i = 0; i < target_.size(); ++i) {
      if (target_[i].kind == TargetAxis::Kind::kRest && !unknown()) result[i] = Dim(0);
    }
    return result;
  }

  // Numbers of elements differ. True: the one unknown size follows from the target (a baked batch)
  // and is bound; false: it can't be told yet.
  bool bind_unknown(Product in, Product out) {
    if (empty_target_) return false;  // no elements, in whatever shape
    if (!unknown()) mismatch(in, out);
    const auto open = std::find_if(factors_.begin(), factors_.end(),
                                   [](const Factor& f) { return !f.dim.known(); });
    const Product others = in / open->weight;
    if (stood_for_.size() != 1 || others % open->weight == 0 || out % open->weight == 0) {
      return false;
    }
    if (out % others != 0) mismatch(in, out);
    open->weight = open->dim.value = static_cast<int64_t>(out / others);
    return true;
  }

  [[noreturn]] void mismatch(Product in, Product out) const {
    const std::string have =
        fmt::format("{} ({} elements)", graph::shape_str(from_), count_text(in));
    const bool rest = out != 0 && std::any_of(target_.begin(), target_.end(), [](const auto& a) {
                        return a.kind == TargetAxis::Kind::kRest;
                      });
    const std::string want = fmt::format("{} ({}{} elements)", target_text(),
                                         rest ? "a multiple of " : "", count_text(out));
    const Factor* batch = batch_factor();
    if (batch != nullptr && !rest && out != 0 && out % (in / batch->weight) == 0) {
      baked(static_cast<int64_t>(out / (in / batch->weight)), have, want);
    }
    throw ConstraintError("C4", "{} can't take the shape {}", have, want);
  }

  std::string count_text(Product count) const {
    const int64_t value = value_of(count);
    return value < 0 ? "?" : std::to_string(value);
  }

  const Factor* batch_factor() const {
    for (const Factor& factor : factors_) {
      const bool is_batch = !batch_symbol_.empty() && factor.dim.symbol == batch_symbol_;
      if (is_batch && factor.dim.known()) return &factor;
    }
    return nullptr;
  }

  // [N:3,8] -> [1,-1] counts out, but folds three samples into one row: what x.view(x.size(0), -1)
  // becomes when it is exported with a batch of 1.
  void require_whole_batch() const {
    const Factor* batch = batch_factor();
    if (batch == nullptr || batch != factors_.data() || target_.empty()) return;
    const TargetAxis& first = target_[0];
    if (first.kind != TargetAxis::Kind::kSize || first.size == batch->dim.value) return;
    if (channels_per_sample()) return;
    baked(first.size,
          fmt::format("{} ({} elements)", graph::shape_str(from_), count_text(product(factors_))),
          target_text());
  }

  // [N,C,H,W] -> [1,-1,H,W]: every channel of every sample is meant to be a channel of its own (the
  // way to normalise them one by one), because nothing else would change with a batch of 1.
  bool channels_per_sample() const {
    if (from_.size() < 3 || target_.size() != from_.size() || target_[0].size != 1) return false;
    if (target_[1].kind != TargetAxis::Kind::kRest) return false;
    for (size_t i = 2; i < from_.size(); ++i) {
      const bool same = target_[i].kind == TargetAxis::Kind::kCopy
                            ? target_[i].size == static_cast<int64_t>(i)
                            : target_[i].size == from_[i].value;
      if (!same) return false;
    }
    return true;
  }

  [[noreturn]] void baked(int64_t size, const std::string& have, const std::string& want) const {
    throw ConstraintError(
        "C5",
        "the batch size {} is baked into the shape: {} can't take the shape {}, because the "
        "batch here is {}; export the model with a dynamic batch axis, or train with "
        "--micro-batch {} and a --batch that is a multiple of it",
        size, have, want, batch_factor()->dim.value, size);
  }

  std::vector<Dim> assign() {
    std::vector<Dim> result;
    for (size_t i = 0; i < target_.size(); ++i) {
      Dim dim = aligned_ ? take(i) : plain(i);
      result.push_back(target_[i].kind == TargetAxis::Kind::kCopy ? plain(i) : std::move(dim));
    }
    return result;
  }

  // Takes the factors of target axis i off the front.
  Dim take(size_t i) {
    const Product weight = weights_[i];
    if (weight == 1 && (next_ == factors_.size() || factors_[next_].weight != 1)) return {1};
    std::vector<Dim> group;
    while (weight != 1 && next_ < factors_.size() && factors_[next_].weight == 1) {
      // A batch of one row is merged like any other.
      if (is_batch(factors_[next_])) group.push_back(factors_[next_].dim);
      ++next_;
    }
    Product taken = 1;
    do {
      CHECK(next_ < factors_.size(), "{} to {}", graph::shape_str(from_), target_text());
      const Factor& factor = factors_[next_];
      if (taken * factor.weight > weight) return take_part(i, std::move(group), taken);
      taken *= factor.weight;
      if (factor.weight != 1 || weight == 1) group.push_back(factor.dim);
      ++next_;
    } while (taken < weight);
    if (target_[i].kind == TargetAxis::Kind::kRest && weight != 1 && next_ < factors_.size() &&
        factors_[next_].weight == 1 && is_batch(factors_[next_])) {
      group.push_back(factors_[next_++].dim);
    }
    return product_of(group, batch_symbol_);
  }

  bool is_batch(const Factor& factor) const {
    return !batch_symbol_.empty() && factor.dim.symbol == batch_symbol_;
  }

  // The next factor is larger than what is missing: it is split when that leaves whole sizes.
  Dim take_part(size_t i, std::vector<Dim> group, Product taken) {
    Factor& factor = factors_[next_];
    const Product part = weights_[i] / taken;
    if (weights_[i] % taken != 0 || factor.weight % part != 0 || factor.dim.value < 1) {
      aligned_ = false;
      return plain(i);
    }
    factor.weight /= static_cast<int64_t>(part);
    factor.dim = Dim(factor.weight);
    if (part != 1) group.emplace_back(static_cast<int64_t>(part));
    return product_of(group, batch_symbol_);
  }

  const std::vector<Dim>& from_;
  const std::vector<TargetAxis>& target_;
  const std::string& batch_symbol_;
  std::vector<Factor> factors_;
  std::vector<Dim> stood_for_;  // the size behind each stand-in in use
  std::vector<Product> weights_;
  size_t next_ = 0;
  bool empty_target_ = false;
  bool aligned_ = true;  // false: an axis began inside a factor
};

}  // namespace

std::vector<Dim> reshaped_dims(const std::vector<Dim>& from, const std::vector<TargetAxis>& target,
                               const std::string& batch_symbol) {
  return Regrouping(from, target, batch_symbol).run();
}

Dim merged_axes(const std::vector<Dim>& from, size_t begin, size_t end,
                const std::string& batch_symbol) {
  std::vector<Dim> group;
  for (size_t i = begin; i < end; ++i) {
    if (from[i] == Dim(1)) continue;
    for (Dim& factor : factors_of(from[i], batch_symbol)) group.push_back(std::move(factor));
  }
  return group.empty() ? Dim(1) : product_of(group, batch_symbol);
}

}  // namespace sardonyx::ops
