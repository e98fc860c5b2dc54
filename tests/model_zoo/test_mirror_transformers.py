"""The mirror against the real transformers, in a process that knows nothing of it but ``HF_ENDPOINT``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_zoo.mirror import MirrorServer, Upstream

PROGRAM = """
import sys, urllib.request
from transformers import AutoModel
for _ in range(2):
    model = AutoModel.from_pretrained("mirror/tiny-bert", revision=sys.argv[1])
    print(type(model).__name__, model.config.name_or_path)
    urllib.request.urlopen(sys.argv[2] + "/?loaded").read()
"""


@pytest.mark.parametrize("through", [False, True], ids=["storage", "pull-through"])
def test_from_pretrained_gets_its_model_and_a_pinned_commit_costs_nothing_the_second_time(
    few_dir: Path, tmp_path: Path, through: bool
) -> None:
    near_dir = tmp_path / "near"
    near_dir.mkdir()
    with MirrorServer(few_dir, storage=True) as far:
        upstream = Upstream(near_dir, far.endpoint)
        with MirrorServer(near_dir, upstream=upstream) as near:
            server = near if through else far
            repo = far._server.directory.get("mirror/tiny-bert")
            assert repo is not None
            environment = {
                **os.environ,
                "HF_ENDPOINT": server.endpoint,
                "HF_HOME": str(tmp_path / "home"),
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "HF_HUB_DISABLE_XET": "1",
                "OMP_NUM_THREADS": "1",
            }
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, repo.sha, server.endpoint],
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            asked = [request.path for request in server.requests]
            blobs = [request for request in far.requests if request.path.startswith("/blobs/")]
            downloads = [request for request in far.requests if "model.safetensors" in request.path]
    assert done.stdout.split() == ["BertModel", "mirror/tiny-bert"] * 2, done.stderr
    assert len(asked) > 3
    assert asked[-2:] == ["/?loaded"] * 2, "the second, pinned load asked for something"
    assert blobs, "the weights did not come from the storage host"
    assert not through or len([request for request in downloads if request.method == "GET"]) == 2
