// Kernels of ArgMax, ArgMin, Hardmax and TopK: a line is searched by one thread.
#include <algorithm>
#include <numeric>

#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/search/search.h"

namespace sardonyx::ops {

namespace {

using search::Goal;

Lines lines_of(const KernelRequest& request) {
  const int rank = request.in[0].rank();
  const int axis = search::axis_of(*request.node, rank);
  const bool flat = request.node->get_int(search::kFlatten, 0) != 0;
  return Lines::over(request.in_shape(0), axis, flat ? rank : axis + 1);
}

enum class Tie : uint8_t { kFirst, kLast };

// NaN beats all but NaN.
template <class T>
bool beats(Goal goal, T a, T b) {
  if (a != a) return b == b;
  return goal == Goal::kLargest ? a > b : a < b;
}

template <class T>
int64_t extremum_of(Goal goal, Tie tie, const T* x, int64_t length, int64_t stride) {
  int64_t best = 0;
  for (int64_t i = 1; i < length; ++i) {
    const T a = x[i * stride], b = x[best * stride];
    if (tie == Tie::kFirst ? beats(goal, a, b) : !beats(goal, b, a)) best = i;
  }
  return best;
}

void run_arg(Goal goal, const KernelRequest& request, CpuContext& context) {
  const Lines lines = lines_of(request);
  const Tie tie = request.node->get_int("select_last_index", 0) != 0 ? Tie::kLast : Tie::kFirst;
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    cut_lines(*context.pool, lines, kCheapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const T* x = context.in<T>(0) + lines.first(line);
        context.out<int64_t>(0)[line] = extremum_of(goal, tie, x, lines.length, lines.inner);
      }
    });
  });
}

void run_hardmax(const KernelRequest& request, CpuContext& context) {
  const Lines lines = lines_of(request);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, lines, kCheapGrain, [&](int64_t first) {
      const T* x = context.in<T>(0) + first;
      T* y = context.out<T>(0) + first;
      const int64_t best = extremum_of(Goal::kLargest, Tie::kFirst, x, lines.length, lines.inner);
      for (int64_t i = 0; i < lines.length; ++i) y[i * lines.inner] = T(i == best ? 1 : 0);
    });
  });
}

// a stands before b; NaN counts as larger than everything.
template <class T>
bool before(Goal goal, T a, T b) {
  if (a != a || b != b) return goal == Goal::kLargest ? a != a && b == b : a == a && b != b;
  return goal == Goal::kLargest ? a > b : a < b;
}

void run_top_k(const KernelRequest& request, CpuContext& context) {
  const Lines lines = lines_of(request);
  const Goal goal = request.node->get_int("largest", 1) != 0 ? Goal::kLargest : Goal::kSmallest;
  const int64_t k = request.ints(1).at(0);
  const Lines results{lines.outer, k, lines.inner};
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    cut_lines(*context.pool, lines, kCheapGrain, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> order(lines.length);
      for (int64_t line = begin; line < end; ++line) {
        const T* x = context.in<T>(0) + lines.first(line);
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
          const T u = x[a * lines.inner], v = x[b * lines.inner];
          return before(goal, u, v) || (!before(goal, v, u) && a < b);
        });
        const int64_t to = results.first(line);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t at = to + i * lines.inner;
          if (T* values = context.out<T>(0)) values[at] = x[order[i] * lines.inner];
          if (auto* indices = context.out<int64_t>(1)) indices[at] = order[i];
        }
      }
    });
  });
}

void add(KernelRegistry& kernels, const char* op, KernelFunction run) {
  KernelDef def;
  def.op = op;
  def.name = "search.ref";
  def.declines = {unless_numbers()};
  def.create = simple_kernel(std::move(run));
  kernels.add(std::move(def));
}

}  // namespace

void register_search_cpu(KernelRegistry& kernels) {
  for (const Goal goal : {Goal::kLargest, Goal::kSmallest}) {
    add(kernels, goal == Goal::kLargest ? "ArgMax" : "ArgMin",
        [goal](const KernelRequest& request, CpuContext& context) {
          run_arg(goal, request, context);
        });
  }
  add(kernels, "Hardmax", run_hardmax);
  add(kernels, "TopK", run_top_k);
}

}  // namespace sardonyx::ops
