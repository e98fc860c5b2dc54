"""Device-generic tests: gates, counts, memory, modes, marks and bodies."""

import functools
import unittest

import torch
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    instantiate_device_type_tests,
    largeTensorTest,
    onlyAccelerator,
    onlyCPU,
    onlyCUDA,
    onlyNativeDeviceTypes,
    onlyOn,
    skipIf,
    skipMeta,
    skipPRIVATEUSE1,
)
from torch.testing._internal.common_utils import (
    IS_WINDOWS,
    TEST_CUDA,
    TEST_FAIRSEQ,
    TEST_NUMPY,
    TestCase,
    first_sample,
    parametrize,
    run_tests,
    skip_but_pass_in_sandcastle_if,
    skip_exception_type,
    skipIfNoNvmath,
    skipIfNoXPU,
    slowTest,
    subtest,
)


def only_on_a_moonlit_night(fn):
    """A decorator that only this file knows."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        raise unittest.SkipTest("the moon is not full")

    return wrapper


def only_where_cuda_is(fn):
    """Another one, whose condition says what it wants."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if not TEST_CUDA:
            raise unittest.SkipTest("wrong vendor")
        return fn(*args, **kwargs)

    return wrapper


def only_said_in_words(fn):
    """A third, of which only the text tells."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        raise unittest.SkipTest("CUDA is not available")

    return wrapper


class TestOutcomes(TestCase):
    def test_passes(self, device):
        self.assertEqual((torch.ones(2, device=device) + 1).cpu(), torch.full((2,), 2.0))

    @dtypes(torch.float32, torch.int64)
    def test_dtypes(self, device, dtype):
        self.assertEqual(torch.ones(2, device=device, dtype=dtype).dtype, dtype)

    def test_wrong(self, device):
        self.assertEqual(torch.ones(2, device=device).cpu(), torch.zeros(2))

    def test_raises(self, device):
        raise RuntimeError("no such luck")

    def test_runs_out(self, device):
        raise torch.OutOfMemoryError("tried to allocate 7 GiB")

    @unittest.expectedFailure
    def test_expected(self, device):
        raise RuntimeError("known to fail")

    @unittest.expectedFailure
    def test_unexpected(self, device):
        pass

    def test_subtest_skips(self, device):
        for number in range(2):
            with self.subTest(number=number):
                if number:
                    self.skipTest("odd")

    @onlyNativeDeviceTypes
    @onlyAccelerator
    @skipMeta
    def test_gates_let_it_through(self, device):
        pass


class TestGates(TestCase):
    @onlyCUDA
    def test_only_cuda(self, device):
        pass

    @onlyCPU
    def test_only_cpu(self, device):
        pass

    @onlyOn(["cuda", "xpu"])
    def test_only_two(self, device):
        pass

    @skipPRIVATEUSE1
    def test_not_on_privateuse1(self, device):
        pass

    @onlyCUDA
    @dtypes(torch.float32)
    def test_only_cuda_dtypes(self, device, dtype):
        pass

    @skipIfNoXPU
    def test_lazy_condition(self, device):
        pass

    @skipIf(True, "PyTorch is built without MKL support")
    def test_library(self, device):
        pass

    @deviceCountAtLeast(999)
    def test_many(self, devices):
        pass

    @largeTensorTest("1GB")
    def test_large(self, device):
        pass

    @slowTest
    def test_slow(self, device):
        pass

    def test_listed_slow(self, device):
        pass

    def test_listed_disabled(self, device):
        pass

    @only_on_a_moonlit_night
    def test_mystery(self, device):
        pass

    @only_where_cuda_is
    def test_local_condition(self, device):
        pass

    @only_said_in_words
    def test_local_text(self, device):
        pass


class TestMarks(TestCase):
    @unittest.skip("has been broken for years")
    def test_unconditional(self, device):
        pass

    @unittest.skipIf(True, "see the issue")
    def test_always(self, device):
        pass

    @unittest.skipIf(not TEST_CUDA, "wrong vendor")
    def test_condition(self, device):
        pass

    @unittest.skipIf(IS_WINDOWS or not TEST_FAIRSEQ, "not here")
    def test_second_alternative(self, device):
        pass

    @unittest.skipUnless(TEST_NUMPY and TEST_CUDA, "not here")
    def test_unless(self, device):
        pass

    @skipIfNoNvmath
    def test_named_decorator(self, device):
        pass

    @skip_but_pass_in_sandcastle_if(not TEST_CUDA, "wrong vendor")
    def test_set_by_hand(self, device):
        pass

    @unittest.skipIf(len("ab") == 2, "two is too many")
    def test_unknown_condition(self, device):
        pass

    @parametrize(
        "value",
        [
            1,
            subtest(2, decorators=[unittest.skip("two is odd here")]),
            subtest(3, decorators=[unittest.expectedFailure]),
        ],
    )
    def test_parameter(self, device, value):
        self.assertEqual(value, 1)


def runs(self, device):
    pass


# As test_nn makes its tests: the mark is a call, and no decorator of anything.
TestMarks.test_called = unittest.skipIf(not TEST_CUDA, "needs another vendor")(
    lambda self, device: runs(self, device)
)


class TestBodies(TestCase):
    def test_skip_test(self, device):
        self.skipTest("bool has no small values")

    def test_raise(self, device):
        raise unittest.SkipTest("no reference implementation")

    def test_helper(self, device):
        self._refuse()

    def _refuse(self):
        self.skipTest("does not apply")

    def test_condition(self, device):
        if not TEST_CUDA:
            self.skipTest("wrong vendor")

    def test_no_samples(self, device):
        first_sample(self, [])

    def test_not_implemented(self, device):
        with skip_exception_type(NotImplementedError):
            raise NotImplementedError("aten::unheard_of")


class TestSetUp(TestCase):
    def setUp(self):
        super().setUp()
        self.skipTest("nothing is as it should be")

    def test_anything(self, device):
        pass


class TestSetUpClass(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not TEST_CUDA:
            raise unittest.SkipTest("wrong vendor")

    def test_one(self, device):
        pass

    def test_two(self, device):
        pass


@unittest.skipIf(not TEST_CUDA, "wrong vendor")
class TestSkippedClass(TestCase):
    def test_anything(self, device):
        pass


for _generic in (
    TestOutcomes,
    TestGates,
    TestMarks,
    TestBodies,
    TestSetUp,
    TestSetUpClass,
    TestSkippedClass,
):
    instantiate_device_type_tests(_generic, globals())

if __name__ == "__main__":
    run_tests()
