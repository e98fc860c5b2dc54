"""``harness zoo snapshot``, ``diff`` and ``classes``: the catalog of models, and how few have to run."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

from harness.commands import print_table, say
from harness.errors import ExitCode, InfrastructureError, UsageError
from model_zoo.catalog import CatalogError, about_catalog
from results.layout import default_store
from results.tables import to_json

DEFAULT_HUB = "https://huggingface.co"
_FORMATS = ("table", "json", "csv", "md")


def snapshot(options: argparse.Namespace) -> int:
    """Write a catalog of the Hub; a walk that was cut short goes on."""
    from model_zoo.walk import Wanted, take_snapshot

    wanted = Wanted(
        endpoint=options.hub.rstrip("/"),
        top=options.top,
        share=options.top_share,
        details=not options.listing_only,
    )
    out: Path = options.out
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; give the name of a file in it")
    try:
        count = take_snapshot(wanted, out, say=say(options.quiet))
    except CatalogError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise InfrastructureError(f"{error}; the same command goes on from here") from error
    print(f"{out}: {count:,} models of {wanted.endpoint}, {wanted}")
    return ExitCode.OK


def diff(options: argparse.Namespace) -> int:
    """Say what changed from one catalog to another."""
    from harness.class_planning import read_entries
    from model_zoo.catalog_diff import differences

    before, after = read_entries(options.before), read_entries(options.after)
    found = differences(before, after, options.moved)
    counts = Counter(one.change for one in found)
    if options.format == "json":
        changes = [
            {"model": d.id, "change": d.change, "before": d.before, "after": d.after, "share": d.share}
            for d in found
        ]
        print(to_json({"counts": dict(counts), "changes": changes}), end="")
        return ExitCode.OK
    shown = found[: options.limit] if options.limit else found
    if shown:
        print_table([_difference_row(d) for d in shown], options.format)
    if options.format == "table":
        said = ", ".join(f"{count:,} {change}" for change, count in counts.items()) or "no difference"
        rest = f"; {len(found) - len(shown):,} not shown" if len(shown) < len(found) else ""
        print(f"{len(before):,} models before, {len(after):,} after: {said}{rest}")
    return ExitCode.OK


def classes(options: argparse.Namespace) -> int:
    """Say how many models of a catalog have to run, and for how many others they stand."""
    from harness.class_planning import place_all, read_entries
    from model_zoo.class_report import largest, totals

    entries = read_entries(options.catalog)
    about = about_catalog(options.catalog)
    endpoint = (options.hub or about.hub or DEFAULT_HUB).rstrip("/")
    placed = place_all(entries, endpoint, options.store, options.always_run, say(options.quiet))
    known, rows = totals(placed, about), largest(placed, options.limit)
    if options.format == "json":
        print(to_json({"totals": known, "classes": rows}), end="")
        return ExitCode.OK
    print_table(rows, options.format)
    if options.format == "table":
        print_table([{"": name, "found": value} for name, value in known.items()], options.format)
    return ExitCode.OK


def verify(options: argparse.Namespace) -> int:
    """Run members of classes for themselves and say whether they do what their representatives do."""
    from harness.class_checks import verify_classes
    from harness.profiles import load_profile

    overrides: dict[str, Any] = {"catalog": str(options.catalog), "suites": ["models"]}
    overrides |= {"always_run": options.always_run, "seed": options.seed}
    overrides |= {key: getattr(options, key) for key in ("device", "hub") if getattr(options, key)}
    profile = load_profile(options.profile, overrides)
    found = verify_classes(
        profile, options.store, options.sample, say=say(options.quiet), quiet=options.quiet
    )
    rows = [
        {
            "representative": one.representative,
            "member": one.member,
            "architecture": one.architecture,
            "agrees": one.agrees,
            "op calls": one.compared,
            "outcomes that differ": list(one.outcomes),
            "op calls that differ": list(one.ops),
        }
        for one in found
    ]
    print_table(rows, options.format)
    wrong = sum(not one.agrees for one in found)
    if options.format == "table":
        print(f"{len(found) - wrong} of {len(found)} members do what their representatives do")
    return ExitCode.REGRESSIONS if wrong else ExitCode.OK


def _difference_row(one: Any) -> dict[str, Any]:
    short = {name: value[:12] if one.change in _HASHES else value for name, value in _sides(one).items()}
    return {"model": one.id, "change": one.change.value, **short, "downloads": f"{one.share:.3%}"}


_HASHES = ("added", "removed", "revision", "config")


def _sides(one: Any) -> dict[str, str]:
    return {"before": one.before, "after": one.after}


def share(text: str) -> float:
    """A share of downloads, as ``99.9%`` or ``0.999``."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share such as 99.9% or 0.999, not {text!r}")
    return value


def count(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, not {text!r}")
    return int(text)


def _moved(text: str) -> float:
    return 0.0 if text in ("0", "0%") else share(text)


def add_snapshot(actions: Any) -> None:
    """``harness zoo snapshot``."""
    text = "write a catalog of the Hub's models, most downloaded first; cut short, the same command goes on"
    child = actions.add_parser("snapshot", help=text, description=text)
    child.add_argument("--top", type=count, default=0, metavar="N", help="at most so many models; 0 is all")
    child.add_argument(
        "--top-share", type=share, default=0.0, metavar="SHARE", help="so much of all downloads, e.g. 99.9%%"
    )
    child.add_argument(
        "--hub",
        default=os.environ.get("HF_ENDPOINT") or DEFAULT_HUB,
        help=f"URL of the Hub or a mirror (default: $HF_ENDPOINT, else {DEFAULT_HUB})",
    )
    child.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the Parquet file; an older one is replaced"
    )
    child.add_argument(
        "--listing-only",
        action="store_true",
        help="ask for no configuration and no file sizes: a request per 1,000 models, and no classes",
    )
    child.add_argument("--quiet", action="store_true", help="no progress lines")
    child.set_defaults(function=snapshot)


def add_diff(actions: Any) -> None:
    """``harness zoo diff``."""
    text = "say what changed from one catalog to another"
    child = actions.add_parser("diff", help=text, description=text)
    child.add_argument("before", type=Path, metavar="A", help="the earlier catalog")
    child.add_argument("after", type=Path, metavar="B", help="the later catalog")
    child.add_argument(
        "--moved",
        type=_moved,
        default=0.001,
        metavar="SHARE",
        help="a change of a model's share of downloads that is told (default: 0.1%%); 0 is any",
    )
    child.add_argument("--limit", type=count, default=50, help="at most so many rows; 0 is all (default: 50)")
    child.add_argument("--format", choices=_FORMATS, default="table", help="how to print (default: table)")
    child.set_defaults(function=diff)


def add_classes(actions: Any) -> None:
    """``harness zoo classes``."""
    text = "say how many models of a catalog have to run, since the others do the same"
    child = actions.add_parser("classes", help=text, description=text)
    child.add_argument("catalog", type=Path, metavar="SNAPSHOT", help="file of `harness zoo snapshot`")
    child.add_argument(
        "--always-run", type=count, default=100, metavar="N", help="most downloaded that run (default: 100)"
    )
    child.add_argument("--hub", help="where headers are read (default: the Hub that the catalog is of)")
    child.add_argument("--limit", type=count, default=20, help="so many classes; 0 is all (default: 20)")
    child.add_argument("--quiet", action="store_true", help="no progress lines")
    add_store(child)
    child.add_argument("--format", choices=_FORMATS, default="table", help="how to print (default: table)")
    child.set_defaults(function=classes)


def add_verify(actions: Any) -> None:
    """``harness zoo verify-classes``."""
    text = "run members of classes for themselves and compare their outcomes and op calls"
    child = actions.add_parser("verify-classes", help=text, description=text)
    child.add_argument(
        "--catalog", type=Path, required=True, metavar="FILE", help="of `harness zoo snapshot`"
    )
    child.add_argument("--sample", type=count, default=10, metavar="N", help="so many members (default: 10)")
    child.add_argument("--seed", type=count, default=0, help="draws other members (default: 0)")
    child.add_argument(
        "--always-run", type=count, default=100, metavar="N", help="most downloaded that run (default: 100)"
    )
    child.add_argument("--profile", default="default", help="profile whose limits to use (default: default)")
    child.add_argument("--device", help="torch device type (default: the profile's)")
    child.add_argument("--hub", help="'embedded' or a Hub URL (default: the profile's)")
    child.add_argument("--quiet", action="store_true", help="no progress lines")
    add_store(child)
    child.add_argument("--format", choices=_FORMATS, default="table", help="how to print (default: table)")
    child.set_defaults(function=verify)


def add_store(child: argparse.ArgumentParser) -> None:
    """``--store``, whose cache keeps what headers said."""
    child.add_argument(
        "--store",
        type=Path,
        default=default_store(),
        metavar="DIR",
        help="folder of the results and of what headers said (default: $HARNESS_STORE, else harness-data)",
    )


COMMANDS = (add_snapshot, add_diff, add_classes, add_verify)
