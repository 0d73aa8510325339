// RNN, GRU and LSTM: t steps over a sequence, in one direction or both, h' the state before a step.
//
// RNN   h = f(x Wi^T + h' Ri^T + b)
// GRU   z = f(x Wz^T + h' Rz^T + b)    r = f(x Wr^T + h' Rr^T + b)    h = (1 - z) g + z h'
//       g = g(x Wh^T + (r h') Rh^T + b)      with linear_before_reset x Wh^T + r (h' Rh^T + Rb) +
//       Wb
// LSTM  i = f(x Wi^T + h' Ri^T + Pi c' + b)   f likewise; with input_forget 1 - i
//       c = f c' + i g(x Wc^T + h' Rc^T + b)  o = f(x Wo^T + h' Ro^T + Po c + b)  h = o h(c)
// clip cuts off the arguments of the gates (not c in h(c)); b is Wb + Rb.
//
// Inputs   x [T,N,I]   w [D,G H,I]   r [D,G H,H]   b [D,2 G H]   sequence_lens [N]
//          initial_h, initial_c [D,N,H]   p [D,3 H] (i o f)            G gates: i | z r h | i o f c
// Outputs  y [T,D,N,H]   y_h, y_c [D,N,H]: after the last step (reverse: the first)
//          layout 1: x [N,T,I], y [N,T,D,H], states [N,D,H]
// Private  trace [D,T+1,N,..]: all that backward needs (recurrent.h), asked for by the gradient.
// R1 one floating type   R2 x, w and r have 3 axes   R3 w, r, b, p as above   R4 states as above
// R5 sequence_lens is int32 [N], values 0 to T: behind, y is 0; y_h and y_c are those of the last
//    step that there is, and the initial ones if there is none
// R6 direction   R7 activations: those of ONNX, with their numbers   R8 clip > 0   R9 layout
// R10 hidden_size is that of r
// Gradient RecurrentGrad, back through time, for all inputs at once; reads x, w, r, p and the
//          trace, so y, y_h and y_c may be overwritten. Kinks as in ops/activation; clip: 1 on its
//          bounds.
// Batch    couples: the batch isn't axis 0, or (layout 1) its rows share each step's product.
// An initial state of zeros in the file is left out: that is what it means, and a batch size that
// an exporter baked into it goes with it.
// Source   ONNX RNN-1, 7, 14, 22, GRU-1, 3, 7, 14, 22, LSTM-1, 7, 14, 22
#include "ops/recurrent/recurrent.h"

#include <algorithm>

#include "graph/names.h"
#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/core/rows_apart.h"

namespace sardonyx::ops {

namespace {

using recurrent::Cell;
using recurrent::Order;

// --- Schema

bool holds_zeros(const Value* value) {
  return value != nullptr && value->is_constant() && graph::is_floating(value->type.dtype) &&
         std::ranges::all_of(value->data.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

void normalize_recurrent(NormalizeContext& c) {
  Node& node = c.node();
  const int outputs = recurrent::trace_slot(recurrent::cell_of(node));
  if (node.num_outputs() > outputs) {
    throw Error("node {} has {} outputs, but {} has at most {}", node.label(), node.num_outputs(),
                node.op, outputs);
  }
  for (const int state : {recurrent::kInitialH, recurrent::kInitialC}) {
    if (holds_zeros(node.input(state))) node.graph()->set_input(&node, state, nullptr);
  }
}

// --- Shape

// The sizes that the operands agree on; unknown where none says.
struct Sizes {
  Dim steps, rows, inputs, hidden, directions;
  int64_t gates = 1;
  Order order = Order::kTimeFirst;

  // A state, and a multiple of the hidden size.
  std::vector<Dim> state() const {
    return order == Order::kTimeFirst ? std::vector<Dim>{directions, rows, hidden}
                                      : std::vector<Dim>{rows, directions, hidden};
  }
  Dim times_hidden(int64_t factor) const {
    return hidden.known() ? Dim(factor * hidden.value) : Dim();
  }
};

void require_dims(const InferContext& c, int input, const std::vector<Dim>& expected,
                  const char* constraint) {
  if (!c.has(input) || c.rank(input) < 0) return;
  const std::vector<Dim>& dims = c.dims(input);
  c.require(std::equal(dims.begin(), dims.end(), expected.begin(), expected.end(), agree),
            constraint, "{} is {}, expected {}", input_label(c.node(), input), c.type(input).str(),
            graph::shape_str(expected));
}

Sizes sizes_of(const InferContext& c, int x, int w, int r) {
  for (const int input : {x, w, r}) {
    c.require(c.rank(input) < 0 || c.rank(input) == 3, "R2", "{} is {}, expected 3 axes",
              input_label(c.node(), input), c.type(input).str());
  }
  Sizes s;
  s.gates = recurrent::gates_of(recurrent::cell_of(c.node()));
  s.order = recurrent::order_of(c.node());
  s.directions = Dim(recurrent::directions_of(c.node()));
  if (c.rank(x) == 3) {
    s.steps = c.dims(x)[s.order == Order::kTimeFirst ? 0 : 1];
    s.rows = c.dims(x)[s.order == Order::kTimeFirst ? 1 : 0];
    s.inputs = Dim(c.dims(x)[2].value);
  }
  if (c.rank(r) == 3) s.hidden = Dim(c.dims(r)[2].value);
  const int64_t hidden = c.node().get_int("hidden_size", s.hidden.value);
  const bool said = c.node().has("hidden_size");
  c.require(!said || (hidden >= 1 && agree(s.hidden, Dim(hidden))), "R10",
            "hidden_size is {}, but r is {}", hidden, c.type(r).str());
  if (!s.hidden.known()) s.hidden = Dim(hidden);
  require_dims(c, w, {s.directions, s.times_hidden(s.gates), s.inputs}, "R3");
  require_dims(c, r, {s.directions, s.times_hidden(s.gates), s.hidden}, "R3");
  return s;
}

TensorType trace_type(const InferContext& c, DType dtype, const Sizes& s) {
  recurrent::Recurrence r;
  r.cell = recurrent::cell_of(c.node());
  r.hidden = s.hidden.value;
  const Dim moments = s.steps.known() ? Dim(s.steps.value + 1) : Dim();
  const Dim width = s.hidden.known() ? Dim(r.width()) : Dim();
  return TensorType(dtype, {s.directions, moments, s.rows, width});
}

void infer_forward(InferContext& c) {
  require_floating(c, recurrent::kX, "R1");
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (i != recurrent::kLengths) require_type_of(c, i, recurrent::kX, "R1");
  }
  const Sizes s = sizes_of(c, recurrent::kX, recurrent::kW, recurrent::kR);
  recurrent::squashes_of(c.node());  // throws what is wrong with them
  require_dims(c, recurrent::kB, {s.directions, s.times_hidden(2 * s.gates)}, "R3");
  require_dims(c, recurrent::kP, {s.directions, s.times_hidden(3)}, "R3");
  require_dims(c, recurrent::kInitialH, s.state(), "R4");
  require_dims(c, recurrent::kInitialC, s.state(), "R4");
  if (c.has(recurrent::kLengths)) {
    c.require(c.dtype(recurrent::kLengths) == DType::kInt32, "R5", "{} is {}, expected int32",
              input_label(c.node(), recurrent::kLengths), c.type(recurrent::kLengths).str());
    require_dims(c, recurrent::kLengths, {s.rows}, "R5");
  }
  const DType dtype = c.dtype(recurrent::kX);
  c.set(recurrent::kY, dtype,
        s.order == Order::kTimeFirst ? std::vector<Dim>{s.steps, s.directions, s.rows, s.hidden}
                                     : std::vector<Dim>{s.rows, s.steps, s.directions, s.hidden});
  c.set(recurrent::kLastH, dtype, s.state());
  const Cell cell = recurrent::cell_of(c.node());
  if (cell == Cell::kLstm) c.set(recurrent::kLastC, dtype, s.state());
  c.set(recurrent::trace_slot(cell), trace_type(c, dtype, s));
}

void infer_gradient(InferContext& c) {
  const Sizes s = sizes_of(c, recurrent::kGradX, recurrent::kGradW, recurrent::kGradR);
  const DType dtype = c.dtype(recurrent::kGradX);
  c.set(recurrent::kDx, c.type(recurrent::kGradX));
  c.set(recurrent::kDw, c.type(recurrent::kGradW));
  c.set(recurrent::kDr, c.type(recurrent::kGradR));
  c.set(recurrent::kDb, dtype, {s.directions, s.times_hidden(2 * s.gates)});
  c.set(recurrent::kDinitialH, dtype, s.state());
  c.set(recurrent::kDinitialC, dtype, s.state());
  c.set(recurrent::kDp, dtype, {s.directions, s.times_hidden(3)});
}

// --- Gradient

Value* trace_of(GradientContext& c, int slot) {
  if (c.y(slot) != nullptr) return c.y(slot);
  const auto there =
      std::ranges::find_if(c.node().outputs(), [](const Value* value) { return value != nullptr; });
  Node* node = (*there)->producer;
  graph::Graph& graph = *node->graph();
  graph.add_output_value(node, slot, graph::fresh_name(graph, (*there)->name + "/trace"));
  infer_node(*node);
  return node->output(slot);
}

void recurrent_gradient(GradientContext& c) {
  // For each input of the forward operator the output of RecurrentGrad.
  constexpr std::pair<int, int> kGradients[] = {{recurrent::kX, recurrent::kDx},
                                                {recurrent::kW, recurrent::kDw},
                                                {recurrent::kR, recurrent::kDr},
                                                {recurrent::kB, recurrent::kDb},
                                                {recurrent::kInitialH, recurrent::kDinitialH},
                                                {recurrent::kInitialC, recurrent::kDinitialC},
                                                {recurrent::kP, recurrent::kDp}};
  constexpr const char* kWishes[] = {"dx", "dw", "dr", "db", "dinitial_h", "dinitial_c", "dp"};
  const Cell cell = recurrent::cell_of(c.node());
  Value* trace = trace_of(c, recurrent::trace_slot(cell));
  graph::Attributes attributes = c.node().attributes;
  attributes[recurrent::kCell] = c.node().op;
  Value* d_last_c = cell == Cell::kLstm ? c.dy(recurrent::kLastC) : nullptr;
  std::vector<std::string> wishes(std::size(kWishes));
  for (const auto& [input, output] : kGradients) {
    if (c.wants(input)) wishes[output] = kWishes[output];
  }
  const Node* gradient = c.b().node(
      kDomain, recurrent::kGradient,
      {c.x(recurrent::kX), c.x(recurrent::kW), c.x(recurrent::kR), c.x(recurrent::kLengths),
       c.x(recurrent::kP), trace, c.dy(recurrent::kY), c.dy(recurrent::kLastH), d_last_c},
      wishes, std::move(attributes));
  for (const auto& [input, output] : kGradients) {
    if (c.wants(input)) c.set(input, gradient->output(output));
  }
}

// --- Definition

const std::vector<AttributeDef> kAttributes = {
    {"direction", "string, default forward: forward, reverse or bidirectional"},
    {"layout", "int, default 0: 1 has the batch in front of the steps"},
    {"hidden_size", "int, default that of r: numbers in a state"},
    {"activations", "strings, default Sigmoid for f, Tanh else: functions f, g, h by direction"},
    {"activation_alpha", "floats: alpha of the functions that have one, in their order"},
    {"activation_beta", "floats: beta of the functions that have one, in their order"},
    {"clip", "float, default none: bound on the arguments of the gates' functions"}};
const AttributeDef kReset = {"linear_before_reset",
                             "int, default 0: 1 applies r behind the product with Rh"};
const AttributeDef kForget = {"input_forget", "int, default 0: 1 has f = 1 - i"};

ParameterSlot recurrent_slot(int slot) {
  switch (slot) {
    case recurrent::kW:
    case recurrent::kR:
    case recurrent::kP:
      return ParameterSlot::kWeight;
    case recurrent::kB:
      return ParameterSlot::kBias;
    default:
      return ParameterSlot::kNone;
  }
}

// torch.nn.LSTM and its like take the size of the state for all of a layer. p is the diagonal of a
// matrix like r, and begins as small.
graph::Fan recurrent_fan(const Node& node, int slot) {
  const std::vector<int64_t> w = node.input(recurrent::kW)->type.shape();
  const auto hidden = static_cast<double>(node.input(recurrent::kR)->type.shape()[2]);
  return {slot == recurrent::kW ? static_cast<double>(w[2]) : hidden, static_cast<double>(w[1]),
          hidden};
}

// The batch stands behind the steps, or (layout 1) in front of them.
bool recurrent_keeps_apart(const Node& node, const std::vector<int>& axes) {
  return rows_stand_along(node.get_int("layout", 0) == 0 ? 1 : 0, axes);
}

double flops_of(const KernelRequest& request, int x, int r, double products) {
  const auto s =
      recurrent::Recurrence::of(*request.node, request.in_shape(x), request.in_shape(r)[2]);
  return products * static_cast<double>(s.directions * s.steps * s.rows) *
         static_cast<double>(s.gates()) * static_cast<double>(s.inputs + s.hidden);
}

void check_values(const KernelRequest& request, const void* values, int64_t first_sample) {
  const auto s = recurrent::Recurrence::of(*request.node, request.in_shape(recurrent::kX),
                                           request.in_shape(recurrent::kR)[2]);
  recurrent::check_lengths(static_cast<const int32_t*>(values), s.rows, s.steps, first_sample);
}

OpDef forward_op(const char* name, const char* doc, std::vector<int> since) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.since = std::move(since);
  op.inputs = {{"x"},
               {"w"},
               {"r"},
               {"b", Presence::kOptional},
               {"sequence_lens", Presence::kOptional, "integer lengths"},
               {"initial_h", Presence::kOptional}};
  op.outputs = {{"y", Presence::kOptional}, {"y_h", Presence::kOptional}};
  op.attributes = kAttributes;
  op.normalize = normalize_recurrent;
  op.infer = infer_forward;
  op.gradient = gradient(recurrent_gradient);
  op.parameter_slot = recurrent_slot;
  op.fan = recurrent_fan;
  op.keeps_rows_apart = recurrent_keeps_apart;
  op.value_check = {recurrent::kLengths, check_values};
  op.flops = [](const KernelRequest& request) {
    return flops_of(request, recurrent::kX, recurrent::kR, 2);
  };
  return op;
}

OpDef rnn_op() {
  OpDef op = forward_op("RNN", "Recurrent layer without gates.", {1, 7, 14, 22});
  op.outputs.push_back({"trace", Presence::kOptional});
  return op;
}

OpDef gru_op() {
  OpDef op = forward_op("GRU", "Recurrent layer with update and reset gates.", {1, 3, 7, 14, 22});
  op.attributes.push_back(kReset);
  op.outputs.push_back({"trace", Presence::kOptional});
  return op;
}

OpDef lstm_op() {
  OpDef op =
      forward_op("LSTM", "Recurrent layer with a cell state and gates around it.", {1, 7, 14, 22});
  op.attributes.push_back(kForget);
  op.inputs.push_back({"initial_c", Presence::kOptional});
  op.inputs.push_back({"p", Presence::kOptional});
  op.outputs.push_back({"y_c", Presence::kOptional});
  op.outputs.push_back({"trace", Presence::kOptional});
  return op;
}

OpDef gradient_op() {
  OpDef op;
  op.domain = kDomain;
  op.name = recurrent::kGradient;
  op.doc = "Gradients of RNN, GRU and LSTM, back through time.";
  op.inputs = {{"x"},
               {"w"},
               {"r"},
               {"sequence_lens", Presence::kOptional},
               {"p", Presence::kOptional},
               {"trace"},
               {"dy", Presence::kOptional},
               {"dy_h", Presence::kOptional},
               {"dy_c", Presence::kOptional}};
  for (const char* name : {"dx", "dw", "dr", "db", "dinitial_h", "dinitial_c", "dp"}) {
    op.outputs.push_back({name, Presence::kOptional});
  }
  op.attributes = kAttributes;
  op.attributes.insert(op.attributes.end(), {kReset, kForget});
  op.attributes.push_back({recurrent::kCell, "string, required: name of the forward operator"});
  op.infer = infer_gradient;
  op.gradient = not_differentiable("second derivative of a recurrent layer");
  op.flops = [](const KernelRequest& request) {
    return flops_of(request, recurrent::kGradX, recurrent::kGradR, 4);
  };
  return op;
}

}  // namespace

void register_recurrent(OpRegistry& ops) {
  ops.add(rnn_op());
  ops.add(gru_op());
  ops.add(lstm_op());
  ops.add(gradient_op());
}

}  // namespace sardonyx::ops
