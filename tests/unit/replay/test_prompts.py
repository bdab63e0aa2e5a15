"""Workloads laid out as phases of prompts."""

import random

from dropgate.replay.prompts import Phase, TokenStreams, phases
from dropgate.replay.workload import BoundarySweep, Extend, PrefixRepetition, Pressure, Resets, Salts

UNIT = 16


def laid_out(workload, sizes=(UNIT,)):
    return [(phase, list(phase.prompts)) for phase in phases(workload, sizes)]


def test_scenario_a_is_one_populating_prompt_and_160_timed_ones():
    work = PrefixRepetition(
        name="a", kind="prefix_repetition", num_prompts=160, prefix_len=12_288, suffix_len=256, max_concurrency=16
    )
    (_, populate), (timed, prompts) = laid_out(work)
    assert [prompt.num_tokens for prompt in populate] == [12_544]
    assert (len(prompts), {prompt.num_tokens for prompt in prompts}) == (160, {12_544})
    assert {prompt.shared_tokens for prompt in prompts} == {12_288}
    assert timed.max_concurrency == 16
    suffixes = {prompt.segments[1:] for prompt in [*populate, *prompts]}
    assert len(suffixes) == 161


def test_a_sweep_goes_around_every_multiple_and_below_the_unit():
    sweep = BoundarySweep(name="sweep", kind="boundary_sweep", max_units=2, max_prefixes=3)
    found = laid_out(sweep)
    lengths = {prompts[0].num_tokens for phase, prompts in found if phase.name.startswith("repeat")}
    assert lengths == {8, 15, 16, 17, 31, 32, 33}
    assert all(phase.reset_before for phase, _ in found)
    assert [len(prompts) for phase, prompts in found if phase.name.startswith("prefixes")] == [2, 4, 6]


def test_shared_tokens_are_what_a_probe_and_its_fill_have_in_common():
    sweep = BoundarySweep(name="sweep", kind="boundary_sweep", max_units=3, max_prefixes=2)
    streams = TokenStreams(seed=1, size=50_000)
    for _, prompts in laid_out(sweep):
        fills = [streams.tokens(prompt.segments) for prompt in prompts if prompt.shared_tokens == 0]
        for probe in (prompt for prompt in prompts if prompt.shared_tokens):
            ids = streams.tokens(probe.segments)
            common = max(
                next((i for i, (a, b) in enumerate(zip(fill, ids, strict=False)) if a != b), min(len(fill), len(ids)))
                for fill in fills
            )
            assert common == probe.shared_tokens


def test_a_longer_draw_starts_with_every_shorter_one():
    streams = TokenStreams(seed=7, size=1_000)
    source = random.Random(0)
    for _ in range(20):
        short, more = source.randint(1, 300), source.randint(0, 300)
        assert streams.tokens((("s", short + more),))[:short] == streams.tokens((("s", short),))


def test_the_next_turn_holds_the_whole_last_answer_but_its_last_token_is_not_cached():
    work = Extend(name="talk", kind="extend", num_conversations=1, turns=2, prompt_len=20, suffix_len=5, output_len=7)
    (_, first), (_, second) = laid_out(work)
    assert second[0].num_tokens == 20 + 7 + 5
    assert second[0].shared_tokens == 20 + 7 - 1
    assert second[0].segments[1] == (first[0].answer, 7)


def test_salted_prompts_come_twice_and_hit_only_the_second_time():
    ((_, prompts),) = laid_out(Salts(name="s", kind="salts", prompt_len=40, salts=("x", "y")))
    assert [prompt.cache_salt for prompt in prompts] == [None, "x", "y"] * 2
    assert [prompt.shared_tokens for prompt in prompts] == [0, 0, 0, 40, 40, 40]


def test_random_prompts_share_nothing_and_partly_shared_ones_are_not_predicted():
    common = {"kind": "pressure", "num_prompts": 2, "prompt_len": 20, "output_len": 1, "max_concurrency": 2}
    ((_, apart),) = laid_out(Pressure(name="p", **common))
    ((_, partly),) = laid_out(Pressure(name="p", shared_len=8, **common))
    assert [prompt.shared_tokens for prompt in apart] == [0, 0]
    assert [prompt.shared_tokens for prompt in partly] == [None, None]


def test_resets_are_asked_for_by_step():
    work = Resets(name="r", kind="resets", num_prompts=3, prompt_len=9, output_len=4, every_steps=2, max_concurrency=2)
    ((phase, prompts),) = laid_out(work)
    assert isinstance(phase, Phase)
    assert (phase.reset_running_every, len(prompts)) == (2, 3)
