"""The memory that a run may share out."""

from __future__ import annotations

import psutil
import pytest

from harness.memory import available_memory

TOTAL = psutil.virtual_memory().total
V1 = "12:cpu,cpuacct:/other\n9:memory:/a/b\n"
V2 = "0::/a/b\n"


@pytest.fixture
def groups(tmp_path):
    def make(membership, limits):
        (tmp_path / "membership").write_text(membership)
        for name, text in limits.items():
            path = tmp_path / "mount" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return available_memory(tmp_path / "mount", tmp_path / "membership")

    return make


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        (V2, {}, TOTAL),
        (V2, {"a/b/memory.max": "max\n", "a/memory.max": "max\n"}, TOTAL),
        (V2, {"a/b/memory.max": "2048\n"}, 2048),
        (V2, {"a/b/memory.max": "2048\n", "a/memory.max": "1024\n"}, 1024),
        (V2, {"memory.max": "512\n"}, 512),  # a container's own limit
        (V1, {"memory/a/b/memory.limit_in_bytes": "4096\n"}, 4096),
        (
            V1,
            {"memory/memory.limit_in_bytes": "9223372036854771712\n"},
            TOTAL,
        ),  # what version 1 says for none
        ("0::/\n", {"memory.max": "512\n"}, 512),
        ("", {"memory.max": "512\n"}, TOTAL),
    ],
)
def test_the_least_limit_counts(groups, membership, limits, expected):
    assert groups(membership, limits) == expected


def test_here_it_is_a_part_of_the_machine_s():
    assert 0 < available_memory() <= TOTAL
