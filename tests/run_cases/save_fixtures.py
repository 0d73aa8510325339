#!/usr/bin/env python3
"""Saves every shared fixture untrained and after one step, and compares the files with programs of others.

Nothing of Sardonyx reads the saved files here: the `onnx` package parses them, its checker and ONNX Runtime judge
them, and a reader of protobuf's wire format compares their bytes. For each fixture it is shown that

  copy      saved after no step it is the same bytes, data files included
  parts     after one step only trained tensors, BatchNormalization's statistics, split tensors and modes differ:
            equal messages once those are cleared, and equal bytes in every other field
  form      --keep-training-form changes tensors only, without it every node is in inference form
  checker   onnx.checker (full_check) accepts what it accepted before
  ort       ONNX Runtime loads what it loaded before, and computes what `sardonyx eval` does

Needs the packages onnx, onnxruntime and numpy; without them it exits with 77, which ctest calls skipped.

    save_fixtures.py --sardonyx build/release/tools/sardonyx --fixtures ../shared/fixtures [--table FILE] [NAME...]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import numpy_helper
except ImportError as error:
    print(f"skipped: {error}; this test needs the packages onnx, onnxruntime and numpy")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
PAYLOAD = ("raw_data", "float_data", "double_data", "int32_data")
PAYLOAD_FIELDS = (4, 5, 9, 10)  # of TensorProto: float_data, int32_data, raw_data, double_data
GRAPH_IN_MODEL, FUNCTION_IN_MODEL = 7, 25
NODE, INITIALIZER, INPUT, VALUE_INFO = 1, 5, 11, 13  # of GraphProto
FUNCTION_NODE = 7
NEVER_TRAINING_OPERATORS = ("BatchNormalization", "Dropout")


class Difference(Exception):
    """What must not differ does."""


def expect(condition, text):
    if not condition:
        raise Difference(text)


# --- the wire format ---------------------------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """(number, bytes of the whole field, bytes of its content) of a message, in order."""
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = varint(data, at)
        kind = tag & 7
        body = at
        if kind == 0:
            _, at = varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, body = varint(data, at)
            at = body + length
        else:
            raise Difference(f"wire type {kind} at byte {start}")
        yield tag >> 3, data[start:at], data[body:at]


def text(data, number):
    return next((body.decode(errors="surrogateescape") for n, _, body in fields(data) if n == number), "")


def fields_but_payload(tensor):
    return [whole for number, whole, _ in fields(tensor) if number not in PAYLOAD_FIELDS]


def constant_but_payload(node):
    """The fields of a Constant node, those of its tensor without the values."""
    parts = []
    for number, whole, body in fields(node):
        if number != 5:
            parts.append(whole)
            continue
        for inner, inner_whole, inner_body in fields(body):
            parts += fields_but_payload(inner_body) if inner == 5 else [inner_whole]
    return parts


class RawFields:
    """The bytes of a file, field by field, without what training may change."""

    def __init__(self, data, permitted):
        self.permitted = permitted
        self.rest = []
        for number, whole, body in fields(data):
            if number == GRAPH_IN_MODEL:
                self.graph(body)
            elif number == FUNCTION_IN_MODEL:
                self.function(body)
            else:
                self.rest.append(whole)

    def graph(self, data):
        for number, whole, body in fields(data):
            if number == INITIALIZER:
                self.initializer(text(body, 8), whole, body)
            elif number == NODE:
                self.node("", whole, body)
            elif number in (VALUE_INFO, INPUT) and text(body, 1) in self.permitted.gone_infos:
                continue
            else:
                self.rest.append(whole)

    def function(self, data):
        name = text(data, 1)
        for number, whole, body in fields(data):
            if number == FUNCTION_NODE:
                self.node(name, whole, body)
            else:
                self.rest.append(whole)

    def initializer(self, name, whole, body):
        if name in self.permitted.split or name in self.permitted.gone:
            return
        if name in self.permitted.tensors:
            self.rest += fields_but_payload(body)
        else:
            self.rest.append(whole)

    def node(self, function, whole, body):
        outputs = [b.decode() for number, _, b in fields(body) if number == 2]
        operator = text(body, 4)
        if operator in NEVER_TRAINING_OPERATORS:
            self.rest += [w for number, w, _ in fields(body) if number not in (1, 2, 5)]
        elif self.permitted.is_split_use(body):
            self.rest += [w for number, w, _ in fields(body) if number != 1]
        elif operator == "Constant" and outputs[0] in self.permitted.gone:
            return
        elif operator == "Constant" and self.permitted.is_constant(function, outputs[0]):
            self.rest += constant_but_payload(body)
        else:
            self.rest.append(whole)


# --- the messages ------------------------------------------------------------------------------------------------


class Permitted:
    """What training may change in a file: from the table of `sardonyx check`, and the modes of its nodes."""

    def __init__(self, model, table):
        self.tensors = {row["name"] for row in table if row["role"] in ("trainable", "state")}
        initializers = {t.name for t in model.graph.initializer}
        self.split = {}  # new name: (old name, node, input)
        for name in self.tensors - initializers:
            for old in initializers:
                if name.startswith(old + "@") and ":" in name:
                    node, slot = name[len(old) + 1 :].rsplit(":", 1)
                    self.split[name] = (old, node, int(slot))
        self.split_nodes = {node for _, node, _ in self.split.values()}
        self.gone = set()
        self.gone_infos = set(self.split)
        self.inner = {name.rsplit("/", 1)[-1] for name in self.tensors}

    def is_split_use(self, node):
        return text(node, 3) in self.split_nodes

    def is_constant(self, function, output):
        return output in (self.inner if function else self.tensors)


def clear(tensor):
    for field in PAYLOAD:
        tensor.ClearField(field)


def bodies(model):
    yield "", model.graph
    for function in model.functions:
        yield function.name, function


def clear_values(model, permitted):
    for tensor in model.graph.initializer:
        if tensor.name in permitted.tensors:
            clear(tensor)
    for function, body in bodies(model):
        for node in body.node:
            if node.op_type == "Constant" and permitted.is_constant(function, node.output[0]):
                for attribute in node.attribute:
                    clear(attribute.t)


def behind_identities(graph, name):
    sources = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Identity"}
    while name in sources:
        name = sources[name]
    return name


def undo_splits(original, model, permitted):
    """Takes the split tensors out of a saved model again; each must stand where its name says."""
    graph = model.graph
    places = {node.name: node for node in original.graph.node}
    kept = [t for t in graph.initializer if t.name not in permitted.split]
    expect(len(graph.initializer) - len(kept) == len(permitted.split), "split tensors are missing")
    del graph.initializer[:]
    graph.initializer.extend(kept)
    inputs = [i for i in graph.input if i.name not in permitted.split]
    del graph.input[:]
    graph.input.extend(inputs)
    for name, (old, place, slot) in permitted.split.items():
        readers = [(node, i) for node in graph.node for i, value in enumerate(node.input) if value == name]
        expect(len(readers) == 1, f"{name} is read {len(readers)} times")
        node, i = readers[0]
        expect((node.name, i) == (place, slot), f"{name} is read by input {i} of {node.name}")
        was = places[place].input[slot]
        expect(behind_identities(original.graph, was) == old, f"{name} takes the place of {was}")
        node.input[i] = was


def take_modes_out(model):
    """Removes what only training mode has; returns the names of the inputs and outputs that go with it."""
    inputs, outputs = set(), set()
    for _, body in bodies(model):
        for node in body.node:
            if node.op_type not in NEVER_TRAINING_OPERATORS or node.domain not in ("", "ai.onnx"):
                continue
            outputs.update(name for name in node.output[1:] if name)
            del node.output[1:]
            if node.op_type == "Dropout":
                inputs.update(name for name in node.input[2:] if name)
                del node.input[2:]
            modes = [a for a in node.attribute if a.name == "training_mode"]
            for mode in modes:
                node.attribute.remove(mode)
    return inputs, outputs


def reads(graph):
    names = Counter(name for node in graph.node for name in node.input)
    names.update(o.name for o in graph.output)
    return names


def remove_unread(model, inputs, outputs, permitted):
    """What only the removed inputs read, and what is said about removed values."""
    graph = model.graph
    read = reads(graph)
    listed = {i.name for i in graph.input}
    permitted.gone = {name for name in inputs if read[name] == 0 and name not in listed}
    for tensor in [t for t in graph.initializer if t.name in permitted.gone]:
        graph.initializer.remove(tensor)
    for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] in permitted.gone]:
        graph.node.remove(node)
    permitted.gone_infos |= outputs | permitted.gone
    for _, body in bodies(model):
        for info in [v for v in body.value_info if v.name in permitted.gone_infos]:
            body.value_info.remove(info)


def check_inference_form(model):
    off = {t.name for t in model.graph.initializer if t.data_type == 9 and not numpy_helper.to_array(t).any()}
    for _, body in bodies(model):
        for node in body.node:
            if node.domain not in ("", "ai.onnx"):
                continue
            modes = [a.i for a in node.attribute if a.name == "training_mode"]
            if node.op_type == "BatchNormalization":
                expect(not any(modes) and len(node.output) == 1, f"{node.name} is in training form")
            if node.op_type == "Dropout":
                expect(len(node.input) < 3 or node.input[2] in off, f"{node.name} is in training form")


def is_in_training_form(model):
    try:
        check_inference_form(model)
    except Difference:
        return True
    return False


def same_message(before, after, what):
    if before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True):
        return
    for field in ("node", "initializer", "input", "output", "value_info"):
        a, b = getattr(before.graph, field), getattr(after.graph, field)
        expect(len(a) == len(b), f"{what}: {len(a)} of graph.{field} became {len(b)}")
        for old, new in zip(a, b):
            expect(old == new, f"{what}: graph.{field} {old.name} differs")
    raise Difference(f"{what}: the messages differ outside the graph")


def compare_parts(before, after, table, form):
    """`before` and `after`: bytes of files. `form`: inference, or kept."""
    a, b = onnx.ModelProto.FromString(before), onnx.ModelProto.FromString(after)
    permitted = Permitted(a, table)
    undo_splits(a, b, permitted)
    if form == "inference":
        check_inference_form(b)
        remove_unread(a, *take_modes_out(a), permitted)
        take_modes_out(b)
    for model in (a, b):
        clear_values(model, permitted)
    same_message(a, b, form)
    old, new = RawFields(before, permitted).rest, RawFields(after, permitted).rest
    expect(old == new, f"{form}: the bytes of a field differ that training must not touch")
    return permitted


def check_comparison(before, after, table):
    """That the comparison finds what differs, wherever it stands."""

    def renamed(model):
        model.graph.node[-1].name += "?"

    def noted(model):
        model.metadata_props.add(key="a", value="b")

    def moved(model):
        names = [tensor.name for tensor in model.graph.initializer]
        model.graph.initializer.insert(0, onnx.TensorProto(name="".join(names)))

    for change in (renamed, noted, moved):
        model = onnx.ModelProto.FromString(after)
        change(model)
        try:
            compare_parts(before, model.SerializeToString(), table, "inference")
        except Difference:
            continue
        raise Difference(f"the comparison doesn't see {change.__name__}")
    try:
        compare_parts(before, after + b"\xfa\x3f\x00", table, "inference")  # a field that ONNX doesn't know
    except Difference:
        return
    raise Difference("the comparison doesn't see a new field")


def values(path):
    """Float tensors of a file by name, from wherever they stand; in functions FUNCTION/OUTPUT."""
    model = onnx.load(path)
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for function, body in bodies(model):
        for node in body.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "value":
                    name = f"{function}/{node.output[0]}" if function else node.output[0]
                    found[name] = numpy_helper.to_array(attribute.t)
    return found


def changed_tensors(before, after):
    old, new = values(before), values(after)
    return {name for name in old if name in new and old[name].tobytes() != new[name].tobytes()}


def compare_data_files(model_path, saved_folder, changed):
    """Outside the ranges of changed tensors, data files are the same bytes."""
    model = onnx.load(model_path, load_external_data=False)
    free = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entry = {e.key: e.value for e in tensor.external_data}
        ranges = free.setdefault(entry["location"], [])
        if tensor.name in changed:
            start = int(entry.get("offset", 0))
            ranges.append((start, start + int(entry["length"])))
    for location, ranges in free.items():
        old = np.fromfile(model_path.parent / location, np.uint8)
        new = np.fromfile(saved_folder / location, np.uint8)
        expect(old.size == new.size, f"{location} has another size")
        differs = old != new
        for start, end in ranges:
            differs[start:end] = False
        expect(not differs.any(), f"{location} differs outside the trained tensors")
    return sorted(free)


# --- a fixture ---------------------------------------------------------------------------------------------------


class Fixture:
    def __init__(self, folder, sardonyx, scratch):
        self.folder, self.sardonyx, self.scratch = folder, sardonyx, Path(scratch)
        self.model = folder / "model.onnx"
        self.case = json.loads((folder / "case.json").read_text())
        self.input = self.tensor("input_0.pb")
        np.savez(self.scratch / "data.npz", x=self.input, y=self.tensor("labels.pb"))

    def tensor(self, file):
        return numpy_helper.to_array(onnx.TensorProto.FromString((self.folder / file).read_bytes()))

    def run(self, *arguments):
        done = subprocess.run([self.sardonyx, *map(str, arguments)], capture_output=True, text=True, check=False)
        expect(done.returncode == 0, done.stderr.strip().splitlines()[-1] if done.stderr else f"code {done.returncode}")
        return done.stdout

    def data_flags(self):
        loss = "mse" if self.case["loss"] == "mse" else "cross_entropy"
        return [f"--data=npz:{self.scratch / 'data.npz'}", f"--batch={len(self.input)}", f"--loss={loss}",
                f"--output={self.case['graph_output']}"]  # fmt: skip

    def save(self, name, steps, *flags):
        folder = self.scratch / name
        folder.mkdir()
        path = folder / "model.onnx"
        self.run("train", self.model, *self.data_flags(), f"--steps={steps}", "--lr=0.05", "--no-shuffle",
                 "--no-dropout", "--eval-every=0", f"--save={path}", *flags)  # fmt: skip
        return path

    def check_copy(self):
        saved = self.save("copy", 0)
        names = {path.name for path in saved.parent.iterdir()}
        expect(names == {"model.onnx", *self.case["external_data"]}, f"saved {sorted(names)}")
        for name in names:
            expect((saved.parent / name).read_bytes() == (self.folder / name).read_bytes(), f"{name} is no copy")

    def check_parts(self, trained, kept):
        report = json.loads(self.run("check", self.model, *self.data_flags()[1:], "--json"))
        before = self.model.read_bytes()
        compare_parts(before, kept.read_bytes(), report["parameters"], "kept")
        permitted = compare_parts(before, trained.read_bytes(), report["parameters"], "inference")
        check_comparison(before, trained.read_bytes(), report["parameters"])
        changed = changed_tensors(self.model, trained)
        strange = {name for name in changed if name.rsplit("/", 1)[-1] not in permitted.inner | permitted.tensors}
        expect(not strange, f"changed: {sorted(strange)}")
        compare_data_files(self.model, trained.parent, changed)
        expected = self.case["expected"]
        still = {name.split("/")[-1] for name in expected["trainable"] if "@" not in name}
        still -= {name.split("/")[-1] for name in changed}
        still -= {name.split("/")[-1] for name in [*expected["untouched"], *expected["vanishing_gradient"]]}
        # Half a unit in the last place of a float16 can be more than a step.
        expect(not still or "float16" in self.folder.name, f"a step left {sorted(still)[:4]} as they were")
        return len(changed) + len(permitted.split)

    def check_checker(self, trained):
        if checker_says(self.model):
            return "refused before"
        says = checker_says(trained)
        expect(not says, f"onnx.checker: {says}")
        return "accepts"

    def check_runtime(self, trained):
        if runtime_says(self.model)[1]:
            return "refused before"
        session, says = runtime_says(trained)
        expect(not says, f"ONNX Runtime: {says}")
        name = self.case["graph_output"]
        feeds = {self.case["input"]: self.input}
        (output,) = session.run([name], feeds)
        if isinstance(output, list):  # of maps, as ZipMap makes them
            output = np.array([[row[key] for key in sorted(row)] for row in output])
        predictions = self.scratch / "predictions.npy"
        self.run("eval", trained, *self.data_flags(), f"--predictions={predictions}")
        ours = np.load(predictions).reshape(output.shape)
        scale = max(1.0, float(np.abs(output).max()))
        error = float(np.abs(output.astype(np.float64) - ours).max()) / scale
        # A float16 file is computed in float32 here, in float16 there.
        limit = 2e-3 if "float16" in self.folder.name else 1e-4
        expect(error <= limit, f"ONNX Runtime and eval differ by {error:.2g}")
        return f"{error:.0e}"

    def row(self):
        row = {"fixture": self.folder.name, "training form": is_in_training_form(onnx.load(self.model))}
        saved = {}

        def attempt(column, body):
            try:
                row[column] = body()
            except Difference as difference:
                row[column] = f"FAIL: {difference}"

        def save_both():
            saved["trained"] = self.save("trained", 1)
            saved["kept"] = self.save("kept", 1, "--keep-training-form")
            return "yes"

        attempt("copy", lambda: self.check_copy() or "yes")
        attempt("trains", save_both)
        if len(saved) == 2:
            attempt("tensors", lambda: self.check_parts(saved["trained"], saved["kept"]))
            attempt("checker", lambda: self.check_checker(saved["trained"]))
            attempt("ort", lambda: self.check_runtime(saved["trained"]))
        return row


def checker_says(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # its own exception types are not all public
        return str(error).strip().splitlines()[0]
    return ""


def runtime_says(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]), ""
    except Exception as error:
        return None, str(error).strip().splitlines()[0]


COLUMNS = ("fixture", "copy", "trains", "tensors", "checker", "ort", "training form")


def pending():
    lines = (ROOT / "tests/run_cases/pending.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sardonyx", required=True)
    parser.add_argument("--fixtures", required=True, type=Path)
    parser.add_argument("--table", type=Path, help="a table of all fixtures, Markdown")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    folders = sorted(path.parent for path in arguments.fixtures.glob("*/case.json"))
    if arguments.names:
        folders = [folder for folder in folders if folder.name in arguments.names]
    if not folders:
        print(f"skipped: there are no fixtures in {arguments.fixtures}")
        return 77
    rows, failed, waiting = [], 0, 0
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            row = Fixture(folder, arguments.sardonyx, scratch).row()
        rows.append(row)
        faults = [f"{key} {value}" for key, value in row.items() if str(value).startswith("FAIL")]
        if faults and folder.name in pending():
            waiting += 1
            print(f"PENDING {folder.name}: {faults[0]}")
        elif faults:
            failed += 1
            print(f"FAIL {folder.name}: {'; '.join(faults)}", flush=True)
        else:
            print("PASS " + "  ".join(str(row.get(column, "")) for column in COLUMNS), flush=True)
    if arguments.table:
        lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
        lines += [" | ".join(str(row.get(column, "")).replace("|", "/") for column in COLUMNS) for row in rows]
        arguments.table.write_text("".join(f"| {line} |\n" for line in lines))
    good = len(rows) - failed - waiting
    print(f"{good} of {len(rows)} fixtures are saved as they must be, {failed} are not, {waiting} can't be trained yet")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
