"""Prompts: seeded, of exact length, with suffixes of their own."""

from dropgate.scenario.workloads import PrefixRepetition
from dropgate.workload.prompts import prefix_prompts


def work(**changes: object) -> PrefixRepetition:
    sizes = {"requests": 20, "concurrency": 4, "prefix_tokens": 32, "suffix_tokens": 8, "token_ids": [10, 50]}
    return PrefixRepetition.model_validate({**sizes, **changes})


def test_the_same_seed_gives_the_same_prompts() -> None:
    assert prefix_prompts(work()) == prefix_prompts(work())
    assert prefix_prompts(work()) != prefix_prompts(work(seed=1))


def test_lengths_and_ids_are_exact() -> None:
    prompts = prefix_prompts(work())
    assert [len(prompts.populate), len(prompts.timed)] == [1, 20]
    for prompt in (*prompts.populate, *prompts.timed):
        assert len(prompt.token_ids) == 40
        assert all(10 <= token < 50 for token in prompt.token_ids)


def test_the_prefix_is_shared_and_not_one_token_more() -> None:
    prompts = prefix_prompts(work())
    everyone = [prompt.token_ids for prompt in (*prompts.populate, *prompts.timed)]
    assert len({tuple(ids[:32]) for ids in everyone}) == 1
    assert len({ids[32] for ids in everyone}) == 21


def test_requests_go_round_the_prefixes() -> None:
    prompts = prefix_prompts(work(prefixes=3))
    assert len(prompts.populate) == 3
    starts = [tuple(prompt.token_ids[:32]) for prompt in prompts.timed]
    assert starts[:3] == [tuple(prompt.token_ids[:32]) for prompt in prompts.populate]
    assert starts[3:6] == starts[:3]
    assert len(set(starts)) == 3


def test_only_a_populated_prefix_is_promised_to_be_shared() -> None:
    assert {prompt.shared_tokens for prompt in prefix_prompts(work()).timed} == {32}
    assert {prompt.shared_tokens for prompt in prefix_prompts(work(populate=False)).timed} == {0}


def test_without_suffixes_every_prompt_is_the_prefix() -> None:
    assert len({tuple(prompt.token_ids) for prompt in prefix_prompts(work(suffix_tokens=0)).timed}) == 1
