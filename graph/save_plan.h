// From new values with origins to edits of the file's bytes. Internal to saving.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/external_files.h"
#include "graph/file_edit.h"
#include "graph/file_index.h"
#include "graph/model.h"
#include "graph/onnx_export.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {

struct AttributePlace {
  wire::Span span;
  std::string name;
  std::string reference;  // to the attribute of the function around it
  wire::Span tensor;
};

class SavePlan {
 public:
  SavePlan(const Model& model, ExternalFiles& external);

  void add(const NewValue& value);
  void add(const NodeEdit& change);
  void drop_initializer(const std::string& name);
  // Of the file, and of the copies of functions.
  std::vector<FileEdit*> edits();
  // Completes the edits of the file: the copies of functions become part of it.
  FileEdit& finish();
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  using Calls = std::vector<int32_t>;

  // One use of a function with values of its own: its edits go into a copy.
  struct Copy {
    std::string name;
    FileEdit edit;
  };

  FileEdit& edit_for(const Calls& calls);
  void change_node(FileEdit& edit, const NodeEdit& change) const;
  // What the file says about the types of these values.
  void drop_infos(FileEdit& edit, const NodeEdit& change, const std::set<std::string>& names) const;
  const BodyPlace& body_of(const NodeEdit& change) const;
  bool called_once(const Calls& calls) const;
  // The tensor at this place as the file has it.
  Tensor old_value(const TensorMessage& message) const;
  // The value in the type of the file, which may be narrower; a notice when a number is too large.
  Tensor in_type(const Tensor& value, DType dtype);
  void set_tensor(FileEdit& edit, wire::Span tensor, const Tensor& value);
  void set_initializer(const NewValue& value);
  void set_constant(const NewValue& value);
  // The float, floats or tensor of an attribute; false: it has none of them.
  bool set_attribute(FileEdit& edit, const AttributePlace& attribute, const Tensor& value);
  // The attribute of the function around the body that these calls reach: as the call gives it,
  // else its default.
  void set_function_attribute(const Calls& calls, const std::string& name, const Tensor& value);
  void add_initializer(const std::string& name, const Tensor& value);
  void split(const NewValue& value);
  NodePlace split_node(const Origin& origin, int& slot) const;
  std::string fresh_function_name(const std::string& name);

  const Model& model_;
  ExternalFiles& external_;
  FileIndex index_;
  FileEdit edit_;
  std::map<Calls, std::unique_ptr<Copy>> copies_;
  std::vector<NodeEdit> changes_;
  std::set<std::string> function_names_;
  std::vector<std::string> notices_;
  std::string saving_;  // origin_label of the value that is being added
};

}  // namespace sardonyx::graph
