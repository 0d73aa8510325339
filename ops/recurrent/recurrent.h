// RNN, GRU and LSTM, decoded once per kernel; private to the room.
//
// A trace is what backward reads of forward: [D, T + 1, N, width], for every direction, moment and
// sample a row of numbers:
//   LSTM  i o f c | cell | hidden      GRU  z r h | q | hidden      RNN  i | hidden
// The gates stand there as sums, before their function (and without what peepholes add), the states
// as they are after the step; GRU's q is what meets the recurrent weights of its gate h, or, with
// linear_before_reset, what comes out of them. Step t stands at moment t + 1, in reverse at t; the
// initial states are moment 0, in reverse T: the moments before all steps are one block, and so are
// those of the steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/matrix_product.h"
#include "ops/core/strided.h"
#include "ops/recurrent/cells.h"

namespace sardonyx::ops::recurrent {

inline constexpr const char* kGradient = "RecurrentGrad";
inline constexpr const char* kCell = "cell";  // its attribute: the forward operator's name

enum ForwardIn : int { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP };
enum ForwardOut : int { kY, kLastH, kLastC };
enum GradIn : int { kGradX, kGradW, kGradR, kGradLengths, kGradP, kTrace, kDy, kDlastH, kDlastC };
enum GradOut : int { kDx, kDw, kDr, kDb, kDinitialH, kDinitialC, kDp };

enum class Cell : uint8_t { kRnn, kGru, kLstm };
enum class Order : uint8_t { kTimeFirst, kBatchFirst };  // layout 0, layout 1

Cell cell_of(const Node& node);
int64_t gates_of(Cell cell);              // 1, 3, 4
int trace_slot(Cell cell);                // the output that the trace is
int64_t directions_of(const Node& node);  // Throws ConstraintError R6.
Order order_of(const Node& node);         // Throws ConstraintError R9.
// One for each function of each direction. Throws ConstraintError R7.
std::vector<Squash> squashes_of(const Node& node);

// Throws Error unless all are from 0 to the number of steps.
void check_lengths(const int32_t* lengths, int64_t rows, int64_t steps, int64_t first_sample);

struct Recurrence {
  Cell cell = Cell::kRnn;
  Order order = Order::kTimeFirst;
  Reset reset = Reset::kBefore;
  Forget forget = Forget::kOwn;
  bool reversed = false;  // the first direction
  int64_t steps = 0, rows = 0, inputs = 0, hidden = 0, directions = 1;
  std::vector<Squash> squash;

  static Recurrence of(const Node& node, const std::vector<int64_t>& x, int64_t hidden);

  int64_t gates() const { return gates_of(cell) * hidden; }
  // Columns of a trace row, and where its parts begin: behind the gates GRU's q or the cell's
  // state, then the hidden state; what the next step finds there begins at `carried`.
  int64_t width() const { return state() + hidden; }
  int64_t state() const { return gates() + (cell == Cell::kRnn ? 0 : hidden); }
  int64_t carried() const { return cell == Cell::kLstm ? gates() : state(); }
  // Columns of the gradient with respect to the sums: one for q, too.
  int64_t slopes() const { return cell == Cell::kGru ? state() : gates(); }

  // The functions of a direction.
  const Squash* squashes(int64_t direction) const {
    return squash.data() + direction * static_cast<int64_t>(squash.size()) / directions;
  }
  bool backwards(int64_t direction) const { return reversed || direction == 1; }
  int64_t moment(int64_t direction, int64_t step) const {
    return backwards(direction) ? step : step + 1;
  }
  int64_t moment_before(int64_t direction, int64_t step) const {
    return backwards(direction) ? step + 1 : step;
  }
  int64_t first_moment(int64_t direction) const { return backwards(direction) ? steps : 0; }
  int64_t last_moment(int64_t direction) const { return backwards(direction) ? 0 : steps; }
  int64_t trace_numel() const { return directions * (steps + 1) * rows * width(); }

  // Where in y and in the states a row begins.
  int64_t y_at(int64_t step, int64_t direction, int64_t row) const {
    const int64_t line = order == Order::kTimeFirst ? (step * directions + direction) * rows + row
                                                    : (row * steps + step) * directions + direction;
    return line * hidden;
  }
  int64_t state_at(int64_t direction, int64_t row) const {
    return (order == Order::kTimeFirst ? direction * rows + row : row * directions + direction) *
           hidden;
  }
};

// What a step adds to columns [column, column + count) of its sums: columns of a trace row, of the
// moment before or of its own, times rows [weights, weights + count) of R, transposed.
enum class Moment : uint8_t { kBefore, kOwn };
struct Part {
  int64_t column, weights, count;
  int64_t operand;  // its first column
  Moment moment;
};
std::vector<Part> recurrent_parts(const Recurrence& r);

// Any functions, computed in double: the reference.
template <class T>
const CellLoops<T>& any_loops();
// With sigmoid and tanh (RNN: Tanh or Relu), nothing clipped, coupled or peeped: recurrent_isa.cc.
template <class T>
const CellLoops<T>& usual_loops();

// What a kernel has beside its shapes. kReference: plain loops.
enum class Library : uint8_t { kReference, kDnnl, kEigen };

template <class T>
struct DirectionLoops {
  StepLoop<T> step, step_back;
  StepLoop<T> reset, reset_back;  // nullptr: none is needed
};

template <class T>
struct Machine {
  Recurrence r;
  std::vector<Part> parts;
  matrix::Multiply<T> product;
  std::vector<DirectionLoops<T>> loops;  // one for each direction

  static Machine of(Library library, const Recurrence& r, bool peeped);

  StepCall<T> call(int64_t direction, const T* peephole) const {
    StepCall<T> call{};
    call.hidden = r.hidden;
    call.squash = r.squashes(direction);
    call.reset = r.reset;
    call.forget = r.forget;
    if (peephole != nullptr) call.peephole = peephole + direction * 3 * r.hidden;
    return call;
  }
  // Rows that one thread should at least take.
  int64_t grain() const { return 1 + 2048 / (r.gates() + 1); }
};

// x as [T,N,I], and back from it.
StridedCopy time_first(const Recurrence& r, DType dtype);
StridedCopy batch_first(const Recurrence& r, DType dtype);

// Cuts a workspace into aligned parts.
class Places {
 public:
  size_t take(int64_t bytes) {
    const size_t at = size_;
    size_ += (static_cast<size_t>(bytes) + 63) / 64 * 64;
    return at;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

// A kernel for each library that this build has.
void add_kernels(KernelRegistry& kernels, const char* domain, const char* op,
                 std::unique_ptr<Kernel> (*create)(Library library, const KernelRequest& request));
std::unique_ptr<Kernel> make_backward(Library library, const KernelRequest& request);

}  // namespace sardonyx::ops::recurrent
