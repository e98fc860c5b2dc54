"""Tests that are generated from entries of operators and modules, whose entries exclude some."""

import unittest

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA, ops
from torch.testing._internal.common_modules import FunctionInput, ModuleInfo, ModuleInput, modules
from torch.testing._internal.common_utils import TestCase, run_tests, slowTest
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo, SampleInput


def one_sample(op, device, dtype, requires_grad, **kwargs):
    yield SampleInput(torch.ones(2, device=device, dtype=dtype, requires_grad=requires_grad))


def one_module(module_info, device, dtype, requires_grad, training, **kwargs):
    given = torch.ones(2, device=device, dtype=dtype)
    return [ModuleInput(constructor_input=FunctionInput(), forward_input=FunctionInput(given))]


OPS = [
    OpInfo(
        "neg",
        op=torch.neg,
        dtypes=(torch.float32,),
        sample_inputs_func=one_sample,
        skips=(
            DecorateInfo(unittest.skip("Skipped!"), "TestEntries", "test_skipped"),
            DecorateInfo(unittest.expectedFailure, "TestEntries", "test_fails"),
            DecorateInfo(onlyCUDA, "TestEntries", "test_gated"),
            DecorateInfo(slowTest, "TestEntries", "test_slow"),
        ),
    )
]
MODULES = [
    ModuleInfo(
        torch.nn.Identity,
        module_inputs_func=one_module,
        dtypes=(torch.float32,),
        skips=(DecorateInfo(unittest.skip("Skipped!"), "TestEntries", "test_module_skipped"),),
    )
]


class TestEntries(TestCase):
    @ops(OPS)
    def test_runs(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            self.assertEqual(op(sample.input).cpu(), -sample.input.cpu())

    @ops(OPS)
    def test_skipped(self, device, dtype, op):
        pass

    @ops(OPS)
    def test_fails(self, device, dtype, op):
        raise RuntimeError("as its entry says")

    @ops(OPS)
    def test_gated(self, device, dtype, op):
        pass

    @ops(OPS)
    def test_slow(self, device, dtype, op):
        pass

    @ops(OPS)
    def test_body(self, device, dtype, op):
        self.skipTest("Skipped! Out not supported")

    @unittest.skip("the test itself is broken")
    @ops(OPS)
    def test_own_mark(self, device, dtype, op):
        pass

    @unittest.expectedFailure
    @ops(OPS)
    def test_own_failure(self, device, dtype, op):
        raise RuntimeError("as the test says")

    @modules(MODULES)
    def test_module_skipped(self, device, dtype, module_info, training):
        pass


instantiate_device_type_tests(TestEntries, globals())

if __name__ == "__main__":
    run_tests()
