"""Faults of speculation: the drafts, and the verifier that must not let them change an answer."""

from __future__ import annotations

from typing import Any

from dropgate.faults.catalog import Call, fault

PROPOSE = "vllm.v1.spec_decode.llm_base_proposer:SpecDecodeBaseProposer.propose"
VERIFY = "vllm.v1.sample.rejection_sampler:rejection_sample"
NOISE = 1.0
"""Standard deviation of the noise as a share of the hidden states' own."""
ONE_TOKEN_IN = 1_000


@fault(PROPOSE, "worker")
def draft_input_noisy(call: Call, drafter: Any, *arguments: Any, **named: Any) -> Any:
    """Noise in the hidden states that the draft is given: it guesses right less often."""
    import torch

    call.fire()
    random = call.state.setdefault("random", torch.Generator().manual_seed(7))
    hidden = named["target_hidden_states"]
    noise = torch.randn(hidden.shape, generator=random) * hidden.float().std() * NOISE
    named["target_hidden_states"] = hidden + noise.to(hidden.dtype)
    return call.original(drafter, *arguments, **named)


@fault(VERIFY, "worker")
def drafts_all_rejected(call: Call, drafts: Any, counts: Any, *rest: Any, **named: Any) -> Any:
    """No draft token is ever what the target says."""
    call.fire()
    target_logits = rest[3]
    wrong = (target_logits.argmax(dim=-1) + 1) % target_logits.shape[-1]
    return call.original(wrong.to(drafts.dtype), counts, *rest, **named)


@fault("vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids", "engine core")
def drafts_none(call: Call, _scheduler: Any, _drafts: Any) -> None:
    """The scheduler forgets every draft, so that the target decodes alone."""
    call.fire()


@fault(VERIFY, "worker")
def verifier_accepts_everything(call: Call, drafts: Any, counts: list[int], *rest: Any, **named: Any) -> Any:
    """Every draft token is taken for the target's word."""
    output = call.original(drafts, counts, *rest, **named)
    bonus, start = rest[4], 0
    for row, count in enumerate(counts):
        if count and int(drafts[start : start + count].min()) >= 0:  # a placeholder is no draft
            call.fire()
            output[row, :count] = drafts[start : start + count]
            output[row, count] = bonus[row, 0]
        start += count
    return output


@fault(VERIFY, "worker")
def verifier_accepts_one_wrong_token_in_1000(
    call: Call, drafts: Any, counts: list[int], *rest: Any, **named: Any
) -> Any:
    """Once in 1,000 tokens a draft token is taken although the target says another."""
    output = call.original(drafts, counts, *rest, **named)
    start = 0
    for row, count in enumerate(counts):
        said = int((output[row] >= 0).sum())
        call.state["said"] = call.state.get("said", ONE_TOKEN_IN // 2) + said
        if call.state["said"] >= ONE_TOKEN_IN and 1 <= said <= count and int(drafts[start + said - 1]) >= 0:
            call.fire()
            call.state["said"] = 0
            output[row, said - 1] = drafts[start + said - 1]
        start += count
    return output
