#!/usr/bin/env python3
"""Writes the node tests of the installed `onnx` package as folders that run_cases runs.

The package's wheel carries the programs that make these tests, not the files; `onnx.backend.test.cmd_tools` writes the
whole models only. Random operands come from one seed, so that the same package writes the same bytes.

    node_tests.py DIR            DIR/node/NAME/{model.onnx, data.json, test_data_set_N/{input,output}_I.pb}
    run_cases DIR/node           runs them; run_cases --gradients DIR/node checks their gradients

A test whose operands no tensor can hold (sequences, optional values) gets files of their own messages, as onnx has
them. Needs the packages onnx and numpy; without them it exits with 77.
"""

import argparse
import json
import shutil
import sys
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.case.node import collect_testcases
except ImportError as error:
    print(f"skipped: {error}; the node tests are made by the packages onnx and numpy")
    sys.exit(77)

WRITERS = {"tensor_type": numpy_helper.from_array, "sequence_type": numpy_helper.from_list,
           "optional_type": numpy_helper.from_optional}


def message_of(value, info):
    """The message of an operand; `info` is the model's ValueInfoProto of it."""
    if isinstance(value, TensorProto):
        return value
    return WRITERS[info.type.WhichOneof("value")](value, info.name)


def write_values(folder, stem, values, infos):
    for i, (value, info) in enumerate(zip(values, infos)):
        (folder / f"{stem}_{i}.pb").write_bytes(message_of(value, info).SerializeToString())


def write_case(case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
    (folder / "data.json").write_text(json.dumps({"rtol": case.rtol, "atol": case.atol}))
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        write_values(data, "input", inputs, case.model.graph.input)
        write_values(data, "output", outputs, case.model.graph.output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests divide by zero on purpose
        cases = collect_testcases(None)
    for case in cases:
        write_case(case, folder / "node" / case.name)
    print(f"{len(cases)} node tests of onnx {onnx.__version__} in {folder / 'node'}")


if __name__ == "__main__":
    main()
