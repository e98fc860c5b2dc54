"""A Hub whose models fall into classes: some are copies of one that is real, under names of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness.cli import main
from model_zoo.builder import build_mirror
from model_zoo.mirror import METADATA_FILE

BERT, RESNET = "mirror/tiny-bert", "mirror/tiny-resnet"
MEMBERS = ("zoo/bert-a", "zoo/bert-b")
OTHER = "zoo/bert-relu"


def build_zoo(root: Path) -> None:
    """Two models, two copies of one of them, and one copy with another activation."""
    build_mirror(root, only=(BERT, RESNET), pretrained=False)
    for name, downloads in ((BERT, 100), (RESNET, 90), *((name, 5) for name in (*MEMBERS, OTHER))):
        folder = root / name
        if not folder.exists():
            shutil.copytree(root / BERT, folder)
            _amend(folder / "config.json", _name_or_path=name)
        _amend(folder / METADATA_FILE, downloads=downloads)
    _amend(root / OTHER / "config.json", hidden_act="relu")


def _amend(path: Path, **more: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def snapshot(endpoint: str, out: Path) -> None:
    """Write a catalog by the command."""
    assert main(["zoo", "snapshot", "--hub", endpoint, "--out", str(out), "--quiet"]) == 0
