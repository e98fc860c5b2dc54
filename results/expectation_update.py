"""What a run says should change in the expectation files, and the files' text after it.

An entry is taken out when its case passed in the run; a new failure gets one. A regression gets one only if
it is accepted. Cases that are not in the run are not touched.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from results.diagnosis import category_of, first_line
from results.expectation_files import Block, blocks, entry_text
from results.expectations import Entry, declare
from results.globs import GlobIndex
from results.plan import Case, Declared
from results.vocabulary import Category, Expectation, Outcome, Stage, Verdict

_REASON_CHARACTERS = 200
_NO_NEWLINE = "\\ No newline at end of file\n"
_HEAD = "# What is known of this device: see docs/expectations.md.\n"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a case of the run came out.

    Attributes:
        flaked: it passed in one attempt and failed in another.
        passed_before: an earlier run of the device has it passed.
    """

    case: Case
    outcome: Outcome
    stage: Stage
    exception: str = ""
    message: str = ""
    signature: str = ""
    flaked: bool = False
    passed_before: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an update is made under.

    Attributes:
        drop_globs: a glob all of whose cases in the run passed goes, whatever else it may match.
        category: of failures whose message does not tell, ``None`` to leave them alone.
    """

    device: str
    torch: str
    today: datetime.date
    drop_globs: bool = False
    accept_regressions: bool = False
    category: Category | None = None


@dataclasses.dataclass(slots=True)
class Update:
    """Changes, and what was left alone.

    Attributes:
        replaced: new text of an entry, ``""`` to take it out.
        added: ids of new entries, with their text.
        regressions: cases that failed and were not accepted.
        uncategorised: new failures whose message tells no category.
        flakes: cases that passed in one attempt and failed in another.
        conflicts: cases whose new entry would collide with one for other conditions.
        idle_globs: globs of which every case in the run passed, and which stay.
    """

    replaced: dict[Entry, str] = dataclasses.field(default_factory=dict)
    added: dict[str, str] = dataclasses.field(default_factory=dict)
    regressions: list[str] = dataclasses.field(default_factory=list)
    uncategorised: list[Result] = dataclasses.field(default_factory=list)
    flakes: list[str] = dataclasses.field(default_factory=list)
    conflicts: list[str] = dataclasses.field(default_factory=list)
    idle_globs: list[Entry] = dataclasses.field(default_factory=list)

    @property
    def removed(self) -> int:
        """How many entries are taken out."""
        return sum(not text for text in self.replaced.values())


def work_out(results: Sequence[Result], entries: Sequence[Entry], setting: Setting) -> Update:
    """Compare what came out with what the files declare now.

    Raises:
        ExpectationError: two entries of one kind match a case.
    """
    return _Worker(results, entries, setting).update()


class _Worker:
    """Makes one update."""

    def __init__(self, results: Sequence[Result], entries: Sequence[Entry], setting: Setting) -> None:
        cases = [result.case for result in results]
        self._results = sorted(results, key=lambda result: result.case.id)
        self._setting = setting
        self._deciding = declare(cases, entries, setting.device, setting.torch).entries
        active = (e for e in entries if e.is_glob and e.applies(setting.device, setting.torch))
        index = GlobIndex((glob.pattern, glob) for glob in active)
        self._globs = {
            case.id: [glob for glob in index.matches(case.id) if glob.matches_dtype(case)] for case in cases
        }
        self._exact: dict[str, list[Entry]] = {}
        for entry in entries:
            if not entry.is_glob:
                self._exact.setdefault(entry.pattern, []).append(entry)
        self._found = Update()

    def update(self) -> Update:
        self._settle_idle_globs()
        for result in self._results:
            entry = self._deciding.get(result.case.id)
            declared = entry.declared if entry else Declared()
            verdict = declared.verdict(result.outcome, result.stage)
            if entry is not None and verdict is Verdict.UNEXPECTED_PASS:
                self._passed(result, entry)
            elif verdict is Verdict.REGRESSION:
                self._failed(result, entry)
        return self._found

    def _settle_idle_globs(self) -> None:
        """Globs that expect no pass and whose every case passed: there may be cases that the run had not."""
        idle: dict[Entry, bool] = {}
        for result in self._results:
            for glob in filter(_unexpects_passes, self._globs[result.case.id]):
                idle[glob] = idle.get(glob, True) and result.outcome is Outcome.PASSED
        for glob in (glob for glob, all_passed in idle.items() if all_passed):
            if self._setting.drop_globs:
                self._found.replaced[glob] = ""
            else:
                self._found.idle_globs.append(glob)

    def _passed(self, result: Result, entry: Entry) -> None:
        if entry in self._found.replaced or entry in self._found.idle_globs:
            return
        left = [glob for glob in self._globs[result.case.id] if glob not in self._found.replaced]
        if len(left) == 1 and not _unexpects_passes(left[0]):
            left = []
        if (
            left
        ):  # a glob would declare the case once its own entry is gone, or does: an exact id overrules it
            reason = f"it passes, although {left[0].pattern} does not in general"
            self._put(result, entry, self._fields(result, Expectation.PASS, left[0].category, reason))
        else:
            self._found.replaced[entry] = ""

    def _failed(self, result: Result, entry: Entry | None) -> None:
        case, setting = result.case.id, self._setting
        if result.flaked:
            self._found.flakes.append(case)
            return
        if (entry is not None or result.passed_before) and not setting.accept_regressions:
            self._found.regressions.append(case)
            return
        category = category_of(result.outcome, result.message) or setting.category
        if category is None:
            self._found.uncategorised.append(result)
            return
        fields = self._fields(result, Expectation.FAIL, category, reason_of(result))
        narrow: dict[str, str | datetime.date] = {"outcome": result.outcome.value}
        if result.stage is not Stage.TEST:
            narrow["stage"] = result.stage.value
        if result.signature:
            narrow["signature"] = result.signature
        self._put(result, entry, fields | narrow)

    def _fields(
        self, result: Result, expectation: Expectation, category: Category, reason: str
    ) -> dict[str, str | datetime.date]:
        return {
            "id": result.case.id,
            "expectation": expectation.value,
            "category": category.value,
            "reason": reason,
            "added": self._setting.today,
        }

    def _put(self, result: Result, old: Entry | None, fields: dict[str, str | datetime.date]) -> None:
        """Write an entry in the place of the case's own, or as a new one."""
        if old is not None and not old.is_glob:
            kept = {"link": old.link, "owner": old.owner, "review_by": old.review_by or ""}
            self._found.replaced[old] = entry_text(fields | kept, _conditions(old))
            return
        case = result.case.id
        others, conditions = self._exact.get(case, []), {}
        if others:  # they are for other conditions, and these have to exclude them
            conditions = {"device": self._setting.device, "torch": _series(self._setting.torch)}
            if any(_may_collide(result, self._setting, other) for other in others):
                self._found.conflicts.append(case)
                return
        self._found.added[case] = entry_text(fields, conditions)


def _unexpects_passes(entry: Entry) -> bool:
    return entry.expectation in (Expectation.FAIL, Expectation.SKIP)


def _conditions(entry: Entry) -> dict[str, str]:
    return {"device": entry.device, "dtype": entry.dtype, "torch": entry.torch}


def _may_collide(result: Result, setting: Setting, other: Entry) -> bool:
    """Whether another entry of an id may hold in a later run in which one for this series does."""
    series = _series(setting.torch)
    later = other.torch == "" or not series or fnmatch.fnmatchcase(other.torch, series)
    here = dataclasses.replace(other, torch="").applies(setting.device, setting.torch)
    return later and here and other.matches_dtype(result.case)


def _series(torch: str) -> str:
    """``2.13.*`` of ``2.13.0+cpu``."""
    return ".".join([*torch.split(".")[:2], "*"]) if torch else ""


def reason_of(result: Result) -> str:
    """A failure in one line: what was raised, or what happened."""
    said = first_line(result.exception, result.message) or f"{result.outcome.value} in {result.stage.value}"
    cut = said if len(said) <= _REASON_CHARACTERS else said[: _REASON_CHARACTERS - 1] + "…"
    return cut.encode("utf-8", "replace").decode()


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """The text of a file before and after an update; ``old`` is ``""`` for a new one."""

    path: Path
    old: str
    new: str

    @property
    def diff(self) -> str:
        """The change as a unified diff, ``""`` if there is none."""
        before, after = self.old.splitlines(keepends=True), self.new.splitlines(keepends=True)
        name = "/dev/null" if not self.old else str(self.path)
        lines = difflib.unified_diff(before, after, name, str(self.path))
        return "".join(
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
        )


def edits(update: Update, texts: Mapping[Path, str], target: Path) -> list[Edit]:
    """The files that an update changes; new entries go to the end of ``target``, in the order of their ids.

    Comments and order stay: of an entry that goes, its own lines go, and a comment above it stays.
    """
    found = []
    for path in dict.fromkeys([*texts, target]):
        old = texts.get(path, "")
        replaced = {entry.line: text for entry, text in update.replaced.items() if entry.path == path}
        new = _edited(old, replaced, path)
        added = list(update.added.values()) if path == target else []
        if added:
            new = _appended(new or _HEAD, added)
        if new != old:
            found.append(Edit(path, old, new))
    return found


def _edited(text: str, changes: Mapping[int, str], path: Path) -> str:
    parts: list[str] = []
    kept = 0
    for block in blocks(text, path) if changes else ():
        if block.line not in changes:
            continue
        body = _body_end(text, block)
        parts += [text[kept : block.start], changes[block.line]]
        kept = body if changes[block.line] else _past_blank(text, body)
    return "".join([*parts, text[kept:]])


def _body_end(text: str, block: Block) -> int:
    """Where the last line of an entry ends; what follows up to the next one is blank or a comment."""
    end = at = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        at += len(line)
        if line.strip() and not line.lstrip().startswith("#"):
            end = at
    return end


def _past_blank(text: str, position: int) -> int:
    while text.startswith("\n", position):
        position += 1
    return position


def _appended(text: str, entries: Iterable[str]) -> str:
    lines = text.rstrip("\n") + "\n"
    return lines + "".join(f"\n{entry}" for entry in entries)
