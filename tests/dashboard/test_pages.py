"""Each page over the factory's store: the numbers it must show, its filters and its links."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import look, shell
from results.vocabulary import FATES, Fate
from tests.dashboard.conftest import OpenPage, assert_sound, text_of
from tests.results import hurt, ledgers
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, Expected

MODEL = "acme/tiny-gpt2"
ALL_PAGES = {
    shell.OVERVIEW: {},
    shell.MODELS: {},
    shell.MODEL: {"model": MODEL},
    shell.OPERATORS: {},
    shell.OPERATOR: {"op": "aten::cumsum"},
    shell.TESTS: {},
    shell.TEST: {"case": "opinfo::op40::forward[float32]"},
    shell.SKIPS: {},
    shell.COMPARE: {},
    shell.RUN_PAGE: {},
    shell.ABOUT: {},
}


def table(app: AppTest, column: str) -> list[object]:
    """A column of the first table that has it."""
    return next(list(item.value[column]) for item in app.dataframe if column in item.value.columns)


@pytest.mark.parametrize("page", ALL_PAGES)
@pytest.mark.parametrize("run", [COMPLETE_RUN, INCOMPLETE_RUN])
def test_every_page_opens_for_every_run(open_page: OpenPage, nights: Path, page: str, run: str) -> None:
    app = open_page(nights, page, run=run, **ALL_PAGES[page])
    assert_sound(app)
    assert app.title[0].value


def test_the_overview_of_a_complete_run(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, run=COMPLETE_RUN)
    shown, expected = text_of(app), Expected()
    assert f"Complete: all {expected.models + expected.tests} planned cases have a result" in shown
    assert "INCOMPLETE" not in shown
    assert f"Of {expected.counted_models} models that could be judged; 1 of 8 planned" in shown
    assert table(app, "op")[0] == expected.first_gap
    assert table(app, "models")[0] == expected.first_gap_models
    verdicts = {item.label: item.value for item in app.metric}
    assert verdicts["× regression"] == str(expected.regressions)
    assert table(app, "value") == ["3.11.9", "2.13.0"]  # the environment, by name


def test_the_funnel_names_count_and_denominator(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, run=COMPLETE_RUN)
    chart = next(item for item in app.get("vega_lite_chart") if "each stage" in item.proto.alt)
    said = chart.proto.alt
    for stage, passed in zip(("load", "forward", "backward", "compile"), Expected().passed[1:], strict=True):
        assert f"{stage} {passed} of {Expected().counted_models}" in said


def test_an_incomplete_run_says_so_on_every_list(open_page: OpenPage, nights: Path) -> None:
    for page in ("", shell.MODELS, shell.OPERATORS, shell.TESTS):
        app = open_page(nights, page)  # the latest run is the incomplete one
        said = app.warning[0].value
        assert "INCOMPLETE: 3 of 208 cases have no result" in said
        assert "interrupted" in said


def test_a_run_that_is_not_there_is_named(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, run="2020-01-01-night")
    assert r"The store holds no run 2020\-01\-01\-night" in app.warning[0].value
    assert_sound(app)


def test_models_can_be_filtered_by_the_address(open_page: OpenPage, nights: Path) -> None:
    def models(**query: str | list[str]) -> set[object]:
        return set(table(open_page(nights, shell.MODELS, run=COMPLETE_RUN, **query), "model_id"))

    assert len(models()) == Expected().models
    assert models(task="text-generation") == {"acme/tiny-gpt2", "acme/tiny-llama"}
    assert models(architecture="T5ForConditionalGeneration") == {"acme/tiny-t5"}
    assert models(stage="compile", outcome="unsupported") == {"acme/tiny-gpt2"}
    assert models(outcome=["crashed", "timed_out"]) == {"acme/tiny-whisper", "acme/tiny-clip"}
    assert models(fallback="some") == {"acme/tiny-bert", "acme/tiny-gpt2", "acme/tiny-llama"}
    assert models(q="GPT2 acme") == {"acme/tiny-gpt2"}


def test_a_filter_that_leaves_nothing_says_so(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.MODELS, q="no such model")
    assert "No model matches these filters" in text_of(app)
    assert not app.dataframe


def test_a_filter_narrows_the_table(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.MODELS)
    app.multiselect(key="task").set_value(["text-generation"]).run()
    assert set(table(app, "task")) == {"text-generation"}


def test_a_model_shows_stages_message_ops_and_history(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.MODEL, run=COMPLETE_RUN, model=MODEL)
    assert "cannot lower aten::tril" in text_of(app)
    assert "aten::cumsum" in table(app, "called")
    assert table(app, "run") == [INCOMPLETE_RUN, COMPLETE_RUN]


def test_a_model_the_run_does_not_have(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.MODEL, model="acme/unheard-of")
    assert "did not plan this model" in text_of(app)
    assert_sound(app)


def test_operators_are_ranked_and_filtered(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN)
    assert table(app, "rank") == list(range(1, len(table(app, "rank")) + 1))
    models = [int(str(count)) for count in table(app, "models")]
    assert models == sorted(models, reverse=True)
    assert "aten::_copy_from" not in table(app, "called")
    app = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN, others="true", op_q="_copy_from")
    assert set(table(app, "called")) == {"aten::_copy_from"}


def test_an_operator_names_the_models_and_tests_it_touches(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.OPERATOR, run=COMPLETE_RUN, op="aten::cumsum")
    assert set(table(app, "model_id")) == {"acme/tiny-bert", "acme/tiny-gpt2", "acme/tiny-llama"}
    app = open_page(nights, shell.OPERATOR, run=COMPLETE_RUN, op="aten::op40")
    assert len(table(app, "case_id")) == 4


def test_tests_are_paged_and_filtered(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.TESTS, run=COMPLETE_RUN)
    first = table(app, "case_id")
    assert len(first) == 100
    assert "1–100 of 200 tests" in text_of(app)
    second = table(open_page(nights, shell.TESTS, run=COMPLETE_RUN, tests_page="2"), "case_id")
    assert len(second) == 100
    assert not set(first) & set(second)
    chosen = open_page(nights, shell.TESTS, run=COMPLETE_RUN, test_outcome="vacuous", test_dtype="bool")
    assert table(chosen, "case_id") == ["opinfo::op45::forward[bool]"]


def test_checks_have_a_table_and_a_filter(open_page: OpenPage, checks: Path, nights: Path) -> None:
    app = open_page(checks, shell.TESTS)
    assert_sound(app)
    assert table(app, "list") == ["foreach", "op_db", "op_db"]
    assert table(app, "percent") == pytest.approx([100, 0, 200 / 3])
    chosen = open_page(checks, shell.TESTS, check="backward")
    assert table(chosen, "case_id") == [
        "opinfo::op_db::add::backward[float32]",
        "opinfo::op_db::eq::backward[float32]",
    ]
    one_check = open_page(nights, shell.TESTS, run=COMPLETE_RUN)
    assert all("list" not in item.value.columns for item in one_check.dataframe)


def test_a_test_shows_its_message(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.TEST, run=COMPLETE_RUN, case="opinfo::op40::forward[float32]")
    assert "max abs error" in text_of(app)
    assert table(app, "called") == ["aten::op40"]


def test_the_skips_page_shows_what_is_uncategorised_first(open_page: OpenPage, ledger: Path) -> None:
    app = open_page(ledger, shell.SKIPS)
    assert_sound(app)
    assert "UNCATEGORISED: 2 skips have no known reason" in app.warning[0].value
    assert {item.label: item.value for item in app.metric} == {
        "Uncategorised": "2",
        "Deliberate": "1",
        "Eligibility": "5",
    }
    assert "8 skips of 10 planned cases, 1 case of them not generated by upstream" in text_of(app)
    assert table(app, "meaning")[0].startswith("No rule knows the reason")
    assert table(app, "category") == [
        "uncategorised",
        "sparse",
        "device_gate",
        "body",
        "dtype",
    ]
    assert table(app, "case_id")[:2] == [ledgers.MYSTERY, ledgers.NEWER]
    assert ledgers.REASON in table(app, "example_reason")


def test_skips_can_be_filtered_by_the_address(open_page: OpenPage, ledger: Path) -> None:
    def cases(**query: str | list[str]) -> int:
        return len(table(open_page(ledger, shell.SKIPS, **query), "case_id"))

    assert cases() == 8
    assert cases(category="device_gate") == 3
    assert cases(category=["device_gate", "body"]) == 4
    assert cases(source="uncategorised") == 2
    assert cases(skip_suite="opinfo") == 1
    assert cases(skip_q="who knows") == 1
    assert "No skip matches these filters" in text_of(open_page(ledger, shell.SKIPS, skip_q="nonesuch"))


def test_uncategorised_skips_are_said_on_the_overview_and_the_tests(
    open_page: OpenPage, ledger: Path, nights: Path
) -> None:
    for page in ("", shell.TESTS):
        assert "UNCATEGORISED: 2 skips" in open_page(ledger, page).warning[0].value
        assert "UNCATEGORISED" not in text_of(open_page(nights, page, run=COMPLETE_RUN))


def test_a_run_without_skips_says_what_to_run(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night, shell.SKIPS)
    assert_sound(app)
    assert "No skip in this run. Record a suite with" in text_of(app)
    assert not app.dataframe


def test_the_overview_counts_flakes_deaths_and_resumes(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night)
    shown = {item.label: item.value for item in app.metric}
    assert shown["Flakes"] == str(hurt.FLAKES)
    assert shown["Worker deaths"] == str(hurt.DEATHS)
    assert shown["Resumed"] == f"{hurt.RESUMES} times"
    assert shown["Peak memory"] == "300.0 MiB"
    assert shown["~ flake"] == str(hurt.FLAKES)
    assert "More about this run" in [link.proto.label for link in app.get("page_link")]


def test_the_run_page_says_how_the_night_went(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night, shell.RUN_PAGE)
    assert_sound(app)
    shown = text_of(app)
    assert look.plain(hurt.RUN) in shown
    assert "Complete: all 9 planned cases have a result" in shown
    assert sorted(map(list, table(app, "outcomes"))) == [["crashed", "passed"], ["failed_numeric", "passed"]]
    assert sorted(map(list, table(app, "disturbed_by"))) == [[], [hurt.CULPRIT.id]]
    assert table(app, "fate") == ["signalled", "died at start", "interrupted"]
    assert table(app, "processes") == [2, 1, 1]
    assert table(app, "meaning")[0] == FATES[Fate.SIGNALLED]
    assert "Fatal Python error: Aborted" in table(app, "output_tail")
    assert table(app, "peak_bytes")[0] is not None
    assert table(app, "stage")  # where the time went
    assert table(app, "value") == ["3.11.9", "2.13.0"]


def test_a_quiet_run_says_that_nothing_flaked(open_page: OpenPage, nights: Path) -> None:
    shown = text_of(open_page(nights, shell.RUN_PAGE, run=COMPLETE_RUN))
    assert "No case came out differently when it was run again" in shown
    assert "No worker lived long enough to be looked at" in shown


def test_a_test_shows_its_attempts_and_who_disturbs_it(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night, shell.TEST, case=hurt.FLAKY.id)
    assert table(app, "attempt") == [1, 2]
    assert list(map(list, table(app, "outcome")))[:2] == [["failed_numeric"], ["passed"]]
    assert "It fails after these cases in one process" in text_of(app)
    (button,) = [button for button in app.button if "culprit" in button.label]
    assert button.label == look.plain(hurt.CULPRIT.id)
    culprit = button.click().run()
    assert "These cases fail after it in one process" in text_of(culprit)
    assert "Attempts" not in text_of(culprit)


def test_an_attempt_whose_process_was_lost_is_shown(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night, shell.TEST, case=hurt.RETRIED.id)
    assert table(app, "attempt") == [1, 2]
    assert "entered, and its end was never recorded" in table(app, "message")
    assert "flake" not in text_of(app)


def test_a_model_shows_its_attempts_stage_by_stage(open_page: OpenPage, hurt_night: Path) -> None:
    app = open_page(hurt_night, shell.MODEL, model="acme/wobbly")
    assert table(app, "attempt") == [1, 1, 1, 2, 2, 2, 2, 2]
    assert table(app, "worker")[2] == "worker-1"


def test_without_a_store_the_page_says_what_to_run(open_page: OpenPage, tmp_path: Path) -> None:
    app = open_page(tmp_path / "nowhere")
    shown = text_of(app)
    assert "Run `make nightly` or `harness nightly` first" in shown
    assert str(tmp_path / "nowhere") in shown
    assert_sound(app)


def test_a_store_that_is_not_one_is_said_to_be_unreadable(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "coverage.duckdb").write_bytes(b"this is no database")
    assert "cannot be read" in text_of(open_page(tmp_path))


def test_a_store_without_a_run_says_what_to_run(open_page: OpenPage, no_runs: Path) -> None:
    app = open_page(no_runs)
    assert "The store holds no run" in text_of(app)
    assert_sound(app)
