// From the value of --data to a data set.
//
//   fashion-mnist | mnist | cifar10 | cifar100 | idx:DIR[/PREFIX] | npz:FILE | npy:DIR |
//   folder:DIR | synthetic[:N]
//
// Files are looked for in the data directory, else where the system's packages put them. A missing
// file is an Error that lists the names, the places searched and what provides them.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/synthetic.h"

namespace sardonyx::runtime {

enum class FiniteCheck : uint8_t { kOff, kOn };
// Whether arrays must hold labels; where no loss reads any they need not.
enum class LabelUse : uint8_t { kNeeded, kNone };

struct OpenOptions {
  std::string data_dir;  // "": the system's places
  ImageAxes axes =
      ImageAxes::kUnknown;  // kChw or kHwc: what the user says of npz and idx images with channels
  FiniteCheck finite = FiniteCheck::kOff;  // refuse NaN, infinity and what doesn't fit a float
  ImageSize images;                        // what the pictures of folder:DIR are brought to
  SyntheticTask synthetic;                 // `samples` is replaced by N
  // Of the model, that take samples. npz and npy find the array of each by its name; what the first
  // one takes may be called otherwise where it is the only one.
  std::vector<std::string> inputs;
  std::vector<SyntheticTask> synthetic_companions;  // for the inputs behind the first
  LabelUse labels = LabelUse::kNeeded;
};

// Sources of arrays and synthetic ones serve several inputs (Dataset::companions); any other is one
// array of samples, whatever `inputs` says.
//
// The training or test part. nullptr: this source has no test part (an .npz or a folder with one
// pair of arrays). Throws Error.
std::shared_ptr<const Dataset> open_dataset(const std::string& spec, Split split,
                                            const OpenOptions& options);

}  // namespace sardonyx::runtime
