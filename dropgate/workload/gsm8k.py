"""Scenario B's prompts: the same questions cold, and behind one shared few-shot prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from dropgate.errors import InputError, UnmetNeedError
from dropgate.evidence import COLD_PHASE, HIT_PHASE, QuestionSet
from dropgate.law import ServerName
from dropgate.scenario.workloads import Gsm8k
from dropgate.workload.client import Sampling
from dropgate.workload.prompts import Prompt
from dropgate.workload.protocol import Plan
from dropgate.workload.questions import FEW_SHOT, Questions, Row, few_shot_problems, require_checksum

Tokenize = Callable[[str, bool], list[int]]
"""A text's token ids, with the tokenizer's special tokens or without."""


def asked(questions: Questions, work: Gsm8k) -> tuple[Row, ...]:
    """Return the rows that are asked.

    Raises:
        InputError: the data is not the one that the scenario pins.
        UnmetNeedError: it holds fewer rows than the scenario asks.

    """
    require_checksum(questions, work.sha256)
    if len(questions.rows) < work.questions:
        raise UnmetNeedError(f"{questions.name}: {len(questions.rows):,} rows, the scenario asks {work.questions:,}")
    return questions.rows[: work.questions]


def question_set(questions: Questions, work: Gsm8k, tokenize: Tokenize) -> QuestionSet:
    """Tokenise the few-shot prefix and the first ``work.questions`` questions, once for all servers.

    Raises:
        InputError: the few-shot problems do not fill the prefix.

    """
    solved = few_shot_problems()
    text = "".join(_fill(work.few_shot, row) for row in solved[1:])
    prefix = tokenize(text, False)
    if len(prefix) < work.prefix_tokens:
        raise InputError(f"{FEW_SHOT}: {len(prefix):,} tokens, too few for a prefix of {work.prefix_tokens:,}")
    return QuestionSet(
        name=questions.name,
        rows=len(questions.rows),
        sha256=questions.sha256,
        prefix_token_ids=prefix[-work.prefix_tokens :],  # it ends where a problem ends, so that a question may follow
        warm_up_token_ids=tokenize(_fill(work.template, solved[0]), True),
        token_ids=[tokenize(_fill(work.template, row), True) for row in asked(questions, work)],
    )


def _fill(template: str, row: Row) -> str:
    return template.replace("{question}", row.question).replace("{answer}", row.answer)


def gsm8k_plans(work: Gsm8k, questions: QuestionSet, server: ServerName) -> dict[str, Plan]:
    """Return both paths' phases for one server.

    The untimed request is a problem that is not asked, so that nothing but the prefix is in the cache. The oracle
    answers the first ``work.oracle`` prompts of either path; only the baseline answers the controls.
    """
    count = work.oracle if server == "oracle" else len(questions.token_ids)
    controls = (work.control, work.warm_control) if server == "baseline" else (0, 0)
    plans = {}
    for name, prefix in ((COLD_PHASE, []), (HIT_PHASE, questions.prefix_token_ids)):
        plans[name] = Plan(
            populate=[Prompt([*prefix, *questions.warm_up_token_ids], 0)],
            timed=_behind(prefix, questions.token_ids[:count]),
            concurrency=work.concurrency,
            sampling=Sampling(work.output_tokens, ignore_eos=False),
            control=controls[0],
            warm_control=controls[1],
        )
    return plans


def _behind(prefix: list[int], suffixes: Iterable[list[int]]) -> list[Prompt]:
    return [Prompt(list(chain(prefix, suffix)), len(prefix)) for suffix in suffixes]
