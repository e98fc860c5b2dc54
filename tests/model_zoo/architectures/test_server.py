"""A child's record survives whatever ends the child."""

import os
import signal
import time

from model_zoo.architectures.pairs import Pair
from model_zoo.architectures.reasons import Reason
from model_zoo.architectures.server import run_apart

PAIR = Pair("some", "SomeModel", ("base",))


def test_a_record_comes_back():
    record = run_apart(PAIR, lambda pair, tell: {"pair": pair.key, "stage": "done"})
    assert record.pop("seconds") >= 0
    assert record == {"pair": "some/SomeModel", "stage": "done"}


def test_a_child_out_of_time_has_told_its_stage():
    def work(pair, tell):
        tell({"pair": pair.key, "stage": "forward"})
        time.sleep(60)

    record = run_apart(PAIR, work, seconds=0.3)
    assert record["stage"] == "forward"
    assert record["reason"] == Reason.OUT_OF_TIME
    assert record["seconds"] < 30


def test_a_child_that_a_signal_ends_has_crashed():
    def work(pair, tell):
        tell({"pair": pair.key, "stage": "build"})
        os.kill(os.getpid(), signal.SIGKILL)

    record = run_apart(PAIR, work)
    assert (record["stage"], record["reason"]) == ("build", Reason.CRASHED)


def test_the_memory_limit_is_the_childs():
    def work(pair, tell):
        try:
            bytearray(2 << 30)
        except MemoryError:
            return {"pair": pair.key, "stage": "refused"}
        return {"pair": pair.key, "stage": "given"}

    assert run_apart(PAIR, work, memory=1 << 30)["stage"] == "refused"
