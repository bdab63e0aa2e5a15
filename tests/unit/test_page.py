"""report.html without a browser: what it says, what it escapes, how large it is and how long it takes."""

import re
import time

from dropgate.judge import judge
from dropgate.report.html import html_report
from dropgate.report.series import MARKS, rates, strip, thinned, timeline
from tests.support import factory, large

MB = 1_000_000


def page(whole=None):  # type: ignore[no-untyped-def]
    whole = whole or factory.evidence()
    return html_report(whole, judge(whole), None)


def test_a_usual_run_takes_five_seconds_and_three_megabytes_at_most() -> None:
    whole = large.evidence(1_319, 160)
    judgement = judge(whole)
    assert judgement.verdict == "pass"
    began_s = time.process_time()  # of this process alone: the machine may be busy
    text = html_report(whole, judgement, None)
    assert time.process_time() - began_s < 5
    assert len(text.encode()) < 3 * MB
    assert text.count("<figure") == 9


def test_a_failure_says_first_what_was_expected_and_seen() -> None:
    text = page(factory.evidence(candidate=factory.seen("baseline")))
    why = re.sub(r"<[^>]+>", "", text[text.index('<ul class="why') :].partition("</ul>")[0])
    assert re.search(r"prefix\.delta\.cached_tokens_per_request\s+expected \+1,536 seen 0", why)
    assert text.index('<header class="fail">') < text.index("<h2")


def test_what_a_server_says_cannot_become_markup() -> None:
    text = page(factory.evidence(errors=("<script>alert(1)</script>",)))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_is_the_same_each_time_and_names_nothing_to_load() -> None:
    text = page()
    assert text == page()
    loads = re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"|url\((?!#)[^)]*\)|@import", text)
    assert loads == []


def test_a_run_without_any_evidence_is_a_page_too() -> None:
    whole = factory.evidence(errors=("no boot",))
    bare = {name: seen.model_copy(update={"phases": {}}) for name, seen in whole.variants.items()}
    text = page(whole.model_copy(update={"variants": bare, "costs": None}))
    assert "Nothing could be measured." in text
    text = page(whole.model_copy(update={"variants": {}, "costs": None}))
    assert '<header class="invalid">' in text


def test_requests_without_counts_have_no_mark_and_are_counted() -> None:
    records = [factory.record(0, 3072), factory.record(1, 0).model_copy(update={"cached_tokens": None})]
    found = strip(records)
    assert (len(found.cached), found.unknown) == (1, 1)
    assert strip([]).unknown == 0


def test_more_requests_than_marks_are_drawn_in_groups_that_keep_the_mean() -> None:
    records = [factory.record(index, index % 2 * 1536) for index in range(2 * MARKS + 2)]
    found = strip(records)
    assert found.group == 3
    assert len(found.cached) <= MARKS
    whole = large.evidence(8, 8).variants
    pair = {"baseline": whole["baseline"].phases["acceptance"], "candidate": whole["candidate"].phases["acceptance"]}
    assert rates(pair).grid == 0  # type: ignore[arg-type]


def test_a_thinned_curve_keeps_both_ends() -> None:
    import numpy as np

    values, shares = thinned(np.arange(3 * MARKS, dtype=float))
    assert (values[0], values[-1], shares[-1], len(values)) == (0, 3 * MARKS - 1, 1, MARKS)


def test_the_timeline_has_the_idle_time_between_tasks() -> None:
    spans = [span for span in timeline(large.evidence(8, 8)) if span.server == "baseline"]
    assert spans[0].what == "boot"
    assert {"populate", "timed: prefix", "timed: acceptance hit path", "control"} <= {span.what for span in spans}
    whole = factory.evidence()
    late = whole.variants["baseline"].phases["prefix"].model_copy(update={"started_s": 20.0, "finished_s": 21.0})
    moved = whole.variants["baseline"].model_copy(update={"phases": {"prefix": late}})
    spans = timeline(whole.model_copy(update={"variants": {"baseline": moved}}))
    idle = [span for span in spans if span.what == "idle"]
    assert [(span.start_s, span.end_s) for span in idle] == [(11.5, 20.0)]
