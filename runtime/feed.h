// Between data sets and a session: which inputs take the samples, what the labels must be, and a
// loaded batch as the session's Batch. All that can be wrong with data is found here, before the
// first step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/config.h"
#include "runtime/data/batch.h"
#include "runtime/data/dataset.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

struct Feed {
  struct Input {
    std::string name;
    graph::TensorType type;  // as in the file; with --set-batch for any batch
  };
  std::vector<Input> inputs;  // take the samples: the first the set's own, the others companions'
  std::string labels_input;   // takes the labels when the file computes its own loss, else ""
  graph::TensorType labels;   // its type
  bool wants_labels = true;   // false: the file computes its own loss, and reads none

  const Input& first() const { return inputs.front(); }

  // Rows that the file demands; -1: any number.
  int64_t baked_rows() const;
};

// Rows that the model's first input demands; -1: any number, as with --set-batch.
int64_t baked_rows(const Session& session);

// The same of the file, with --set-batch or without.
int64_t rows_in_file(const Session& session);

// Throws Error when the model has an input that data can't feed.
Feed find_feed(const Session& session, const Flags& flags);

// What the file calls the classes that `scores` tell apart (runtime/class_names.h); empty where
// nothing is known or the labels are no classes.
std::vector<std::string> names_of_classes(const Session& session, const Flags& flags,
                                          const graph::TensorType& scores);

struct FedData {
  std::shared_ptr<const Dataset> train, test;  // a part that wasn't asked for, or isn't there: null
  std::string name;                            // "fashion-mnist"
  int64_t parameters = 0;                      // elements that will be trained
};

// Training reads both parts. An evaluation of the test part takes the other where there is none.
enum class DataUse : uint8_t { kTraining, kEvaluateTest, kEvaluateTrain };

// Opens the data, fits them to the model, describes them to the session and checks every label
// against the classes that the model tells apart. `rows`: of a micro-batch. Throws Error.
FedData open_data(Session& session, const Feed& feed, const Flags& flags, int64_t rows,
                  DataUse use);

// "images" or "samples": how the data are counted in what people read.
const char* sample_word(const Dataset& data);

// Borrows the loaded rows.
Batch session_batch(const Feed& feed, const Dataset& dataset, const LoadedBatch& loaded);

}  // namespace sardonyx::runtime
