// The selection itself. Private to ops/non_max_suppression.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "ops/core/op.h"

namespace sardonyx::ops::nms {

enum Input : int { kBoxes, kScores, kMostBoxes, kIouThreshold, kScoreThreshold, kInputs };

// y1, x1, y2, x2 of two opposite corners, or x, y of the centre, width, height.
enum class BoxForm : uint8_t { kCorners, kCentre };

inline BoxForm form_of(const Node& node) {
  return node.get_int("center_point_box", 0) != 0 ? BoxForm::kCentre : BoxForm::kCorners;
}

struct Sizes {
  int64_t batches = 0, classes = 0, boxes = 0;

  static Sizes of(const std::vector<int64_t>& boxes, const std::vector<int64_t>& scores) {
    return {boxes[0], scores[1], boxes[1]};
  }
};

// What lies between two numbers, on one axis.
template <class T>
struct Extent {
  T low, high;

  static Extent between(T a, T b) { return {std::min(a, b), std::max(a, b)}; }
  static Extent around(T centre, T size) { return {centre - size / 2, centre + size / 2}; }
  T length() const { return high - low; }
  Extent shared(const Extent& other) const {
    return {std::max(low, other.low), std::min(high, other.high)};
  }
};

template <class T>
struct Selection {
  const T* boxes;   // [batches][boxes][4]
  const T* scores;  // [batches][classes][boxes]
  Sizes sizes;
  BoxForm form = BoxForm::kCorners;
  int64_t most = 0;  // boxes of a class
  T iou_threshold = 0;
  std::optional<T> score_threshold = std::nullopt;

  // `inputs`: the elements of each, nullptr where it is left out.
  static Selection of(const Node& node, const Sizes& sizes, const void* const* inputs) {
    const auto number = [&]<class N>(int i, N fallback) {
      return inputs[i] == nullptr ? fallback : *static_cast<const N*>(inputs[i]);
    };
    Selection selection{static_cast<const T*>(inputs[kBoxes]),
                        static_cast<const T*>(inputs[kScores]), sizes, form_of(node)};
    selection.most = number(kMostBoxes, int64_t{0});
    selection.iou_threshold = number(kIouThreshold, T{0});
    if (inputs[kScoreThreshold] != nullptr)
      selection.score_threshold = number(kScoreThreshold, T{0});
    return selection;
  }

  Extent<T> extent(const T* box, int axis) const {
    if (form == BoxForm::kCentre) return Extent<T>::around(box[axis], box[2 + axis]);
    return Extent<T>::between(box[axis], box[2 + axis]);
  }

  bool overlap(const T* a, const T* b) const {
    const Extent<T> a0 = extent(a, 0), a1 = extent(a, 1), b0 = extent(b, 0), b1 = extent(b, 1);
    const Extent<T> both0 = a0.shared(b0), both1 = a1.shared(b1);
    if (!(both0.length() > 0) || !(both1.length() > 0)) return false;
    const T both = both0.length() * both1.length();
    const T area_a = a0.length() * a1.length(), area_b = b0.length() * b1.length();
    const T either = area_a + area_b - both;
    if (!(area_a > 0) || !(area_b > 0) || !(either > 0)) return false;
    return both / either > iou_threshold;
  }

  // take(batch, class, box) for each selected box: the best score first, of equal ones the first
  // box. `order` has an entry per box and is scratch.
  template <class Take>
  void run(std::span<int64_t> order, Take&& take) const {
    for (int64_t batch = 0; batch < sizes.batches; ++batch) {
      const T* corners = boxes + batch * sizes.boxes * 4;
      for (int64_t c = 0; c < sizes.classes; ++c) {
        const T* score = scores + (batch * sizes.classes + c) * sizes.boxes;
        const int64_t selected = select(corners, score, order);
        for (int64_t i = 0; i < selected; ++i) take(batch, c, order[i]);
      }
    }
  }

 private:
  // The selected boxes become the first of `order`.
  int64_t select(const T* corners, const T* score, std::span<int64_t> order) const {
    int64_t candidates = 0;
    for (int64_t i = 0; i < sizes.boxes; ++i) {
      const bool counts = score_threshold ? score[i] > *score_threshold : !std::isnan(score[i]);
      if (counts) order[candidates++] = i;
    }
    std::ranges::sort(order.first(candidates), [&](int64_t a, int64_t b) {
      return score[a] != score[b] ? score[a] > score[b] : a < b;
    });
    int64_t selected = 0;
    for (int64_t i = 0; i < candidates && selected < most; ++i) {
      const auto kept = order.first(selected);
      const bool free = std::ranges::none_of(
          kept, [&](int64_t k) { return overlap(corners + 4 * order[i], corners + 4 * k); });
      if (free) order[selected++] = order[i];
    }
    return selected;
  }
};

}  // namespace sardonyx::ops::nms
