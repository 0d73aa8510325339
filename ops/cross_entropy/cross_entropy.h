// What the loss operators share; private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops::cross_entropy {

enum class Reduction : uint8_t { kNone, kSum, kMean };

// Attribute `reduction`: none, sum or mean. Throws ConstraintError.
Reduction reduction_of(const Node& node, const char* fallback);
std::optional<int64_t> ignore_index_of(const Node& node);

// The shape rules C1 to C4 for scores at input 0, labels at 1 and class weights at 2 (if the
// operator has any). Returns the dimensions of the labels as the scores give them: [N,d..];
// nullopt when the number of axes of the scores is not known.
std::optional<std::vector<Dim>> infer_labels(InferContext& context);
void require_label_type(const InferContext& context, int input);
// Inputs first and first + 1 (scores and labels) both carry the batch: only then are they cut
// alike.
bool both_carry_batch(const Node& node, int first);

// Scores [N,C,d..]: class c of position (n, i) is x[(n * classes + c) * inner + i].
struct Geometry {
  int64_t rows = 0, classes = 0, inner = 1;
  int64_t positions() const { return rows * inner; }

  static Geometry of_scores(const std::vector<int64_t>& shape);
};

// Class numbers of any of their types.
struct Labels {
  const void* data = nullptr;
  DType dtype = DType::kInt64;

  int64_t at(int64_t position) const {
    switch (dtype) {
      case DType::kInt32:
        return static_cast<const int32_t*>(data)[position];
      case DType::kUint8:
        return static_cast<const uint8_t*>(data)[position];
      default:
        return static_cast<const int64_t*>(data)[position];
    }
  }
};

// Throws Error naming sample, value and number of classes.
void check_labels(const Labels& labels, const Geometry& geometry, std::optional<int64_t> ignore,
                  int64_t first_sample);
// The same for the labels at input 1 of a loss of the scores at input 0.
ValueCheck label_check();

OpDef cross_entropy_loss_op();
OpDef cross_entropy_grad_op();
OpDef nll_loss_op();
OpDef nll_grad_op();
OpDef count_correct_op();

// Reference and fast kernels of the losses; of the gradients and the counter.
void add_loss_kernels(KernelRegistry& kernels);
void add_gradient_kernels(KernelRegistry& kernels);
void add_count_kernel(KernelRegistry& kernels);

}  // namespace sardonyx::ops::cross_entropy
