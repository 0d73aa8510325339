// Whole numbers from real shares, then even pieces.
#include "runtime/data/batch_cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

void check_positive(int64_t value, std::string_view what) {
  if (value < 1) throw Error("{} of {}: expected at least 1", what, value);
}

std::vector<double> checked_shares(const CutOptions& options) {
  if (options.shares.empty()) return std::vector<double>(options.replicas, 1.0);
  if (static_cast<int64_t>(options.shares.size()) != options.replicas) {
    throw Error("--shares has {} number{} for {} replica{}", options.shares.size(),
                options.shares.size() == 1 ? "" : "s", options.replicas,
                options.replicas == 1 ? "" : "s");
  }
  double sum = 0;
  for (double share : options.shares) {
    if (!(share >= 0) || !std::isfinite(share)) {
      throw Error("--shares: {} is not a share, expected a number of at least 0", share);
    }
    sum += share;
  }
  if (!(sum > 0) || !std::isfinite(sum)) throw Error("--shares: the shares add up to {}", sum);
  std::vector<double> shares = options.shares;
  // Beyond that, a share times a batch may be infinite.
  if (sum > 1e100) {
    for (double& share : shares) share /= sum;
  }
  return shares;
}

// Largest remainder: everyone gets the whole part of its claim, the rest goes to the largest
// fractions.
std::vector<int64_t> parts_of(int64_t batch, const std::vector<double>& shares) {
  double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<double> fractions;
  for (double share : shares) {
    double claim = static_cast<double>(batch) * share / sum;
    double whole = std::floor(claim);
    parts.push_back(static_cast<int64_t>(whole));
    fractions.push_back(claim - whole);
  }
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return fractions[a] > fractions[b]; });
  int64_t rest = batch - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (int64_t i = 0; i < rest; ++i) ++parts[order[static_cast<size_t>(i) % order.size()]];
  return parts;
}

std::vector<int64_t> even_pieces(int64_t part, int64_t pieces) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < std::min(part, pieces); ++i) {
    result.push_back(part / pieces + (i < part % pieces ? 1 : 0));
  }
  return result;
}

// Ones join in pairs; one that is left over joins what stands before it. `sizes` in order; 0: was
// joined.
void join_in_order(const std::vector<int64_t*>& sizes) {
  int64_t* before = nullptr;
  int64_t* single = nullptr;
  for (int64_t* size : sizes) {
    if (*size == 1 && single != nullptr) {
      *single = 2;
      *size = 0;
      before = std::exchange(single, nullptr);
    } else if (*size == 1) {
      single = size;
    } else {
      before = size;
      single = nullptr;
    }
  }
  if (single != nullptr && before != nullptr) {
    ++*before;
    *single = 0;
  }
}

void join_singles(BatchCut& cut) {
  std::vector<int64_t*> all;
  for (std::vector<int64_t>& micro_batches : cut) {
    std::vector<int64_t*> own;
    for (int64_t& size : micro_batches) own.push_back(&size);
    join_in_order(own);
    std::erase(micro_batches, 0);
    for (int64_t& size : micro_batches) all.push_back(&size);
  }
  join_in_order(all);
  for (std::vector<int64_t>& micro_batches : cut) std::erase(micro_batches, 0);
}

BatchCut cut_baked(int64_t batch, const CutOptions& options) {
  BatchCut cut;
  for (const int64_t pieces : parts_of(batch / options.baked, checked_shares(options))) {
    cut.emplace_back(static_cast<size_t>(pieces), options.baked);
  }
  return cut;
}

}  // namespace

BatchCut cut_batch(int64_t batch, const CutOptions& options) {
  check_positive(batch, "a global batch");
  check_positive(options.replicas, "a number of replicas");
  if (options.micro_batch && options.accumulate) {
    throw Error("both a micro-batch ({}) and an accumulation ({}) are given, expected one of them",
                *options.micro_batch, *options.accumulate);
  }
  if (options.micro_batch) check_positive(*options.micro_batch, "a micro-batch");
  if (options.accumulate) check_positive(*options.accumulate, "an accumulation");
  if (options.baked > 0 && !options.accumulate && batch % options.baked == 0) {
    return cut_baked(batch, options);
  }
  BatchCut cut;
  for (int64_t part : parts_of(batch, checked_shares(options))) {
    int64_t pieces = options.accumulate.value_or(1);
    if (options.micro_batch) pieces = std::max<int64_t>(1, (part - 1) / *options.micro_batch + 1);
    cut.push_back(even_pieces(part, pieces));
  }
  if (options.singles == Singles::kJoin) join_singles(cut);
  return cut;
}

int64_t rows_in(const BatchCut& cut) {
  int64_t rows = 0;
  for (const auto& sizes : cut) rows = std::accumulate(sizes.begin(), sizes.end(), rows);
  return rows;
}

std::vector<int64_t> rows_over_replicas(const BatchCut& cut) {
  std::vector<int64_t> rows;
  for (const auto& sizes : cut) {
    rows.resize(std::max(rows.size(), sizes.size()));
    for (size_t i = 0; i < sizes.size(); ++i) rows[i] += sizes[i];
  }
  return rows;
}

int64_t largest_micro_batch(const BatchCut& cut) {
  int64_t largest = 0;
  for (const auto& sizes : cut) {
    for (const int64_t size : sizes) largest = std::max(largest, size);
  }
  return largest;
}

BatchSetup resolve_batch(const BatchFlags& flags) {
  if (flags.batch) check_positive(*flags.batch, "a global batch");
  if (flags.micro_batch) check_positive(*flags.micro_batch, "a micro-batch");
  if (flags.accumulate) check_positive(*flags.accumulate, "an accumulation");
  BatchSetup setup;
  setup.cut = {.replicas = flags.replicas,
               .accumulate = flags.accumulate,
               .micro_batch = flags.micro_batch,
               .shares = flags.shares};
  if (flags.batch && !(flags.micro_batch && flags.accumulate)) {
    setup.batch = *flags.batch;
    return setup;
  }
  CHECK(flags.micro_batch.has_value(), "neither a batch nor a micro-batch");
  int64_t product = 0;
  if (__builtin_mul_overflow(*flags.micro_batch, flags.replicas, &product) ||
      __builtin_mul_overflow(product, flags.accumulate.value_or(1), &product)) {
    throw Error("micro-batch {} x replicas {} x accumulation {} is too large", *flags.micro_batch,
                flags.replicas, flags.accumulate.value_or(1));
  }
  if (flags.batch && *flags.batch != product) {
    throw Error(
        "global batch {} contradicts micro-batch {} x replicas {} x accumulation {} = {}; give two "
        "of batch, micro-batch and accumulation",
        *flags.batch, *flags.micro_batch, flags.replicas, *flags.accumulate, product);
  }
  setup.batch = product;
  if (flags.accumulate) setup.cut.micro_batch.reset();
  return setup;
}

int64_t largest_micro_batch(const BatchSetup& setup) {
  return largest_micro_batch(cut_batch(setup.batch, setup.cut));
}

}  // namespace sardonyx::runtime
