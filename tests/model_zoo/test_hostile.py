"""Failing hubs and hostile repositories, through the harness's own stages: outcome, reason, nothing run."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import fetching
from harness.devices.cpu import CpuDevice
from harness.job import ModelSettings
from harness.model_stages import run_stages
from model_zoo import download as download_module
from model_zoo import listing as listing_module
from model_zoo.fetch import fetch
from model_zoo.mirror import ALWAYS, Fault, MirrorServer, named_fault, parse_fault
from results.plan import Case
from results.vocabulary import OUTCOMES, CaseKind, Outcome, Stage
from suites.result import CaseResult
from tests.model_zoo.conftest import add_repository

ID = "acme/bert"
PASSED, INFRA, SKIPPED = Outcome.PASSED, Outcome.INFRA_ERROR, Outcome.SKIPPED_UPSTREAM


class Hub:
    """A mirror with one model that works, and the run of its stages fetch and load."""

    def __init__(self, root: Path, server: MirrorServer, settings: ModelSettings, waits: list[float]) -> None:
        self.root, self.server, self.settings, self.waits = root, server, settings, waits
        self.trap = root.parent / "trap"

    def run(self, repo_id: str = ID, revision: str = "") -> tuple[Stage, CaseResult]:
        """The last of the stages fetch and load that ran, and its result."""
        repo = self.server._server.directory.get(repo_id)
        assert repo is not None
        spec = {"repo_id": repo_id, "revision": revision or repo.sha, "task": "fill-mask"}
        stages = run_stages(
            Case(id=f"model::{repo_id}", kind=CaseKind.MODEL, spec=spec), CpuDevice(), self.settings
        )
        found = Stage.FETCH, next(stages)
        if found[1].outcome is PASSED:
            found = Stage.LOAD, next(stages)
        stages.close()
        assert not self.trap.exists(), "something of the repository was executed"
        return found

    def add(self, repo_id: str, files: dict[str, Any], *, without: tuple[str, ...] = ()) -> None:
        """A copy of the working model with other files."""
        shutil.copytree(self.root / ID, self.root / repo_id)
        for name in without:
            (self.root / repo_id / name).unlink()
        add_repository(self.root, repo_id, files)

    def asked_for(self, name: str) -> bool:
        """Whether a file was asked for by name."""
        return any("/resolve/" in request.path and name in request.path for request in self.server.requests)


@pytest.fixture
def hub(few_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    root = tmp_path / "hub"
    shutil.copytree(few_dir / "mirror/tiny-bert", root / ID)
    waits: list[float] = []
    monkeypatch.setattr(fetching, "fetch", partial(fetch, sleep=waits.append, attempts=3, token=False))
    with MirrorServer(root, page_size=100) as server:
        settings = ModelSettings(
            endpoint=server.endpoint, cache=tmp_path / "cache", max_bytes=10**9, seed=0, max_cache_bytes=0
        )
        yield Hub(root, server, settings, waits)


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        ("rate-limit,path=/tree/,times=2,retry-after=9", [9.0, 9.0]),
        ("rate-limit,path=/resolve/,method=GET,retry-after=9", [9.0]),
        ("unavailable,path=/tree/", [1.0]),
        ("error,path=/resolve/,method=GET,times=2", [1.0, 2.0]),
        ("drop,path=/tree/", [1.0]),
        ("drop,path=/resolve/,times=2", None),
        ("truncate,cut-after=20", [1.0]),
        ("garble", [1.0]),
        ("slow,delay=0.05,path=/tree/", []),
        ("slow,delay=0,rate=1000000,path=/resolve/", []),
        ("wrong-etag,times=-1", []),
        ("renamed,path=old/name,times=-1,moved-to=acme/bert", []),
    ],
)
def test_what_helps_itself_is_tried_again(hub: Hub, fault: str, waits: list[float] | None) -> None:
    if fault.startswith("renamed"):
        add_repository(hub.root, "old/name", {"config.json": {}})
    hub.server.faults.add(parse_fault(fault))
    repo = hub.server._server.directory.get(ID)
    assert repo is not None
    name = "old/name" if fault.startswith("renamed") else ID
    stage, result = hub.run(name, repo.sha)
    assert (stage, result.outcome, result.message) == (Stage.LOAD, PASSED, "")
    assert waits is None or hub.waits == waits


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        ("rate-limit,path=/tree/", INFRA, "rate_limited"),
        ("rate-limit,path=/resolve/", INFRA, "rate_limited"),
        ("rate-limit,retry-after=86400", INFRA, "rate_limited"),
        ("unavailable,path=/tree/", INFRA, "server_error"),
        ("error,path=/resolve/", INFRA, "server_error"),
        ("truncate", INFRA, "incomplete"),
        ("garble", INFRA, "corrupt"),
        ("drop", INFRA, "incomplete"),
        ("gated", SKIPPED, "gated"),
        ("private", SKIPPED, "not_found"),
        ("deleted-revision,path=/tree/", SKIPPED, "revision_not_found"),
        ("endless-listing,path=/tree/", SKIPPED, "refused"),
    ],
)
def test_what_stays_is_named_and_not_charged_to_the_device(
    hub: Hub, fault: str, outcome: Outcome, reason: str
) -> None:
    hub.server.faults.add(parse_fault(f"{fault},times=-1"))
    stage, result = hub.run()
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, outcome, reason)
    assert not OUTCOMES[result.outcome].counts
    assert result.message.endswith(".")
    assert "\n" not in result.message
    assert not list(hub.settings.cache.glob("models--*/snapshots/*/*")), "half a snapshot was left"


def test_a_hub_that_is_silent_is_not_waited_for(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "TIMEOUT", 0.1)
    monkeypatch.setattr(listing_module, "TIMEOUT", 0.1)
    hub.server.faults.add(named_fault("slow", {"delay": 30, "times": ALWAYS}))
    stage, result = hub.run()
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, INFRA, "offline")


def listed(hub: Hub, change: Callable[[dict[str, Any]], None]) -> None:
    """Let the hub list its files changed."""
    from model_zoo.mirror.documents import tree_documents

    repo = hub.server._server.directory.get(ID)
    assert repo is not None
    entries = tree_documents(repo, "", recursive=True) or []
    for entry in entries:
        change(entry)
    hub.server.faults.add(Fault("/tree/", body=json.dumps(entries).encode(), times=ALWAYS))


def test_a_file_of_100_gb_is_refused_by_its_size(hub: Hub) -> None:
    def enlarge(entry: dict[str, Any]) -> None:
        if entry["path"] == "model.safetensors":
            entry["size"] = entry["lfs"]["size"] = 100 * 10**9

    listed(hub, enlarge)
    stage, result = hub.run()
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, SKIPPED, "too_large")
    assert "100,0" in result.message
    assert not hub.asked_for("model.safetensors")


def test_a_file_that_is_longer_than_listed_is_not_kept(hub: Hub) -> None:
    hub.server.faults.add(Fault("model.safetensors", body=b"x" * 2_000_000, times=ALWAYS))
    stage, result = hub.run()
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, INFRA, "corrupt")
    largest = max(
        (path.stat().st_size for path in hub.settings.cache.rglob("*") if path.is_file()), default=0
    )
    assert largest < 2_000_000


@pytest.mark.parametrize(
    "name",
    [
        "../../../trap",
        "/tmp/trap",
        "a/../../trap",
        "a//trap",
        ".",
        "a\\..\\trap",
        "c:trap",
        "x\x00y",
        "config.json/x",
    ],
)
def test_a_name_that_leads_outside_is_refused(hub: Hub, name: str) -> None:
    def rename(entry: dict[str, Any]) -> None:
        if entry["path"] == "model.safetensors":
            entry["path"] = name

    listed(hub, rename)
    stage, result = hub.run()
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, SKIPPED, "refused")
    assert not any("/resolve/" in request.path for request in hub.server.requests)


def test_a_listing_that_says_no_sizes_or_never_ends_in_one_answer(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(hub, lambda entry: entry.pop("size"))
    assert hub.run()[1].outcome is INFRA
    hub.server.faults.clear()
    monkeypatch.setattr(listing_module, "MAX_PAGE", 100)
    assert hub.run()[1].facts["reason"] == "refused"


def test_a_link_of_git_is_a_text_and_leads_nowhere(hub: Hub) -> None:
    hub.add("acme/link", {"config.json": "../../../../../etc/passwd"})
    stage, result = hub.run("acme/link")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.LOAD, SKIPPED, "no_config")


def config_of(hub: Hub, **changes: Any) -> dict[str, Any]:
    config = json.loads((hub.root / ID / "config.json").read_text())
    return {key: value for key, value in {**config, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**9},
        {"hidden_size": 10**15},
        {"num_attention_heads": 10**6},
        {"text_config": {"num_layers": 10**7}},
    ],
)
def test_impossible_numbers_of_a_configuration_cost_no_download(hub: Hub, changes: dict[str, Any]) -> None:
    hub.add("acme/huge", {"config.json": config_of(hub, **changes)})
    stage, result = hub.run("acme/huge")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, SKIPPED, "refused")
    assert not hub.asked_for("model.safetensors")


@pytest.mark.parametrize(
    "changes",
    [
        {"intermediate_size": 10**10},
        {"vocab_size": 10**10},
        {"hidden_size": 10**6, "intermediate_size": 10**6},
        {"max_position_embeddings": 10**10},
        {"num_hidden_layers": 9_999, "intermediate_size": 10**5},
    ],
)
def test_a_configuration_of_a_trillion_parameters_is_refused_unbuilt(
    hub: Hub, changes: dict[str, Any]
) -> None:
    hub.add("acme/huge", {"config.json": config_of(hub, **changes)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stage, result = hub.run("acme/huge")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.LOAD, SKIPPED, "refused")
    assert "asks for more than" in result.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "kB"


@pytest.mark.parametrize(
    ("header", "outcome", "reason"),
    [
        ((10**9).to_bytes(8, "little"), SKIPPED, "refused"),
        ((2**63).to_bytes(8, "little"), SKIPPED, "refused"),
        ((100).to_bytes(8, "little") + b"{}", INFRA, "corrupt_weights"),
        (b"", INFRA, "corrupt_weights"),
        ((60_000).to_bytes(8, "little") + b"[" * 60_000, SKIPPED, "refused"),
    ],
)
def test_a_header_that_is_too_large_or_none_is_not_read(
    hub: Hub, header: bytes, outcome: Outcome, reason: str
) -> None:
    hub.add("acme/header", {"model.safetensors": header})
    stage, result = hub.run("acme/header")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.LOAD, outcome, reason)


def test_an_index_that_names_files_elsewhere_is_refused(hub: Hub) -> None:
    (hub.root.parent / "outside.safetensors").write_bytes(b"secret")
    for shard, reason in (
        ("../../../../outside.safetensors", "refused"),
        ("gone.safetensors", "corrupt_weights"),
    ):
        index = {"metadata": {}, "weight_map": {"w": shard}}
        name = f"acme/index-{reason.replace('_', '-')}"
        files = {"model.safetensors.index.json": index, "config.json": config_of(hub)}
        hub.add(name, files)
        assert hub.run(name)[1].facts["reason"] == reason


class _Trap:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("plain", [True, False])
def test_a_pickle_that_would_run_code_is_refused(hub: Hub, plain: bool) -> None:
    weights = hub.root.parent / "weights"
    if plain:
        weights.write_bytes(pickle.dumps({"w": _Trap(hub.trap)}, protocol=2))
    else:
        torch.save({"w": _Trap(hub.trap)}, weights)
    hub.add("acme/pickle", {"pytorch_model.bin": weights.read_bytes()}, without=("model.safetensors",))
    stage, result = hub.run("acme/pickle")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.LOAD, SKIPPED, "unsafe_pickle")


def test_code_of_a_repository_is_not_even_fetched(hub: Hub) -> None:
    code = f"import os\nos.mkdir({str(hub.trap)!r})\nclass Own: pass\n"
    changes = {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoModel": "code.Own"}}
    hub.add("acme/code", {"code.py": code, "config.json": config_of(hub, **changes)})
    stage, result = hub.run("acme/code")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, SKIPPED, "needs_remote_code")
    assert not hub.asked_for("code.py")
    assert not hub.asked_for("model.safetensors")


@pytest.mark.parametrize(
    ("files", "without", "reason", "word"),
    [
        ({"model.gguf": b"GGUF"}, ("model.safetensors",), "no_weights", "GGUF"),
        ({"onnx/model.onnx": b"x"}, ("model.safetensors",), "no_weights", "ONNX"),
        (
            {"adapter_config.json": {}, "adapter_model.safetensors": b"x"},
            ("config.json",),
            "adapter",
            "adapter",
        ),
        ({"config.json": {"quantization_config": {"quant_method": "gptq"}}}, (), "quantised", "gptq"),
        ({"config.json": {"quantization_config": {"load_in_4bit": True}}}, (), "quantised", "bitsandbytes"),
        ({"config.json": {"model_type": "newer"}}, (), "unsupported_by_library", "'newer'"),
        (
            {"config.json": {"model_type": "bert", "architectures": ["BertForPoems"]}},
            (),
            "unsupported_by_library",
            "BertForPoems",
        ),
    ],
)
def test_repositories_of_other_kinds_are_told_apart_before_their_weights_are_fetched(
    hub: Hub, files: dict[str, Any], without: tuple[str, ...], reason: str, word: str
) -> None:
    hub.add("acme/other", files, without=without)
    if "adapter_config.json" in files:
        (hub.root / "acme/other/.mirror.json").write_text("{}")  # Else there is nothing to know it by.
    stage, result = hub.run("acme/other")
    assert (stage, result.outcome, result.facts["reason"]) == (Stage.FETCH, SKIPPED, reason)
    assert result.facts["category"] == "model_unavailable"
    assert word in result.message
    assert not hub.asked_for("model.safetensors")


def test_a_configuration_that_is_nested_without_end_is_refused(hub: Hub) -> None:
    hub.add("acme/deep", {"config.json": "[" * 200_000})
    assert hub.run("acme/deep")[1].facts["reason"] == "refused"
