"""A model's own code: it runs where it was allowed, at that commit, and can reach and change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from harness import lockin
from harness.errors import UsageError
from harness.fetching import Deputy
from harness.lockin import LockInError, lock_in
from harness.profiles import load_profile
from harness.sandbox import REMOTE_CODE, allowed
from model_zoo.load import LoadError, LoadReason
from model_zoo.mirror import MirrorServer
from results.plan import Case
from results.vocabulary import CaseKind
from tests.harness.night import Night, outcomes

COMMIT = "a" * 40

CODE = """
import os, signal, socket
from pathlib import Path
import torch
from transformers import PretrainedConfig, PreTrainedModel

def refused(what, call):
    try:
        call()
    except OSError:
        return
    raise RuntimeError("escaped: " + what)

refused("network", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=5))
refused("home", lambda: Path.home().joinpath("escaped").write_text("x"))
refused("store", lambda: Path({store!r}).joinpath("escaped").write_text("x"))
refused("plan", lambda: next(Path({store!r}).rglob("plan.json")).open("a"))
refused("temporary files", lambda: Path({store!r}).parent.joinpath("escaped").write_text("x"))
if os.environ.get("HF_TOKEN"):
    raise RuntimeError("escaped: token")

class OwnConfig(PretrainedConfig):
    model_type = "own"
    def __init__(self, vocab_size=16, hidden_size=8, **rest):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        super().__init__(**rest)

class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    main_input_name = "input_ids"
    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()
    @torch._dynamo.disable  # What compiles on the CPU takes a C++ compiler half a minute.
    def forward(self, input_ids):
        return {{"logits": self.table(input_ids).tanh()}}
"""


def own_model(root: Path, port: int, store: Path) -> None:
    folder = root / "acme/own"
    folder.mkdir(parents=True)
    (folder / "modeling_own.py").write_text(CODE.format(port=port, store=str(store)))
    auto_map = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    config = {"model_type": "own", "architectures": ["OwnModel"], "auto_map": auto_map, "vocab_size": 16}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 8}))
    save_file({"table.weight": torch.rand(16, 8)}, folder / "model.safetensors", metadata={"format": "pt"})


def can_lock_in() -> str:
    """Why this machine cannot, tried in a process of its own."""
    program = (
        "import tempfile; from pathlib import Path; from harness.lockin import LockInError, lock_in\n"
        "try: lock_in(Path(tempfile.mkdtemp()), [], Path.home())\n"
        "except LockInError as error: print(error)"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.nightly
def test_allowed_code_runs_and_reaches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sentence := can_lock_in():
        pytest.skip(sentence.strip())
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    store = tmp_path / "store"
    (tmp_path / "hub").mkdir()
    with MirrorServer(tmp_path / "hub") as server:
        own_model(tmp_path / "hub", server.port, store)
        repo = server._server.directory.get("acme/own")
        assert repo is not None
        pinned = f"acme/own@{repo.sha}"
        night = Night(
            store, server.endpoint, "--device", "cpu", "--suites", "models", "--allow-remote-code", pinned
        )
        code, said = night.wait()
        asked = [request.path for request in server.requests if "modeling_own.py" in request.path]
    events = "\n".join(str(event) for event in night.events())
    assert "escaped" not in events, events
    assert not list(tmp_path.rglob("escaped"))
    ((case, stage, outcome),) = outcomes(store)
    assert (case, stage) == (f"model::{pinned}", "compile"), f"{events}\n{said}"
    assert outcome == "skipped_upstream", events
    assert code == 0, said
    assert len(asked) == 1


def test_only_a_pinned_commit_can_be_allowed() -> None:
    case = Case(id="m", kind=CaseKind.MODEL, spec={"repo_id": "acme/own", "revision": COMMIT})
    assert allowed(case, (f"acme/own@{COMMIT}",)).spec[REMOTE_CODE] is True
    assert REMOTE_CODE not in allowed(case, (f"acme/own@{'b' * 40}", f"acme/other@{COMMIT}")).spec
    with pytest.raises(UsageError, match="commit hash of 40 hex digits, not 'acme/own@main'"):
        load_profile("default", {"allow_remote_code": ["acme/own@main"]})


def test_where_a_process_cannot_be_locked_in_its_code_is_not_run() -> None:
    with pytest.raises(LoadError, match="code of a repository is not run: no namespaces") as caught:
        Deputy(Pipe()[0], "no namespaces").fetch(0)
    assert caught.value.reason is LoadReason.NEEDS_REMOTE_CODE


def test_an_unknown_machine_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockin.platform, "machine", lambda: "pdp11")
    with pytest.raises(LockInError, match="pdp11"):
        lock_in(tmp_path, [], tmp_path)
    assert not lockin.is_locked_in()


def test_what_is_locked_in_can_be_left_by_no_way_the_kernel_has(tmp_path: Path) -> None:
    if sentence := can_lock_in():
        pytest.skip(sentence.strip())
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/key").write_text("secret")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "log").touch()
    program = f"""
import os, pathlib, subprocess
from harness.lockin import lock_in
root = pathlib.Path({str(tmp_path)!r})
lock_in(root / "scratch", [root / "log"], root / "home")
(root / "log").write_text("written")
(root / "scratch/file").write_text("written")
def fails(call):
    try:
        call()
    except OSError:
        return True
    return False
assert fails(lambda: (root / "other").write_text("x"))
assert not list((root / "home/.ssh").iterdir())
assert subprocess.run(["mount", "-o", "remount,rw", "/"], capture_output=True).returncode
assert subprocess.run(["umount", str(root / "home/.ssh")], capture_output=True).returncode
assert "CapEff:\\t0000000000000000" in pathlib.Path("/proc/self/status").read_text()
print("held")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert (done.stdout, done.returncode) == ("held\n", 0), done.stderr
    assert (tmp_path / "log").read_text() == "written"
    assert not (tmp_path / "scratch/file").exists(), "new files are gone with the process"
    assert (tmp_path / "home/.ssh/key").read_text() == "secret"
