"""Evidence as a healthy engine would leave it, made in a moment; tests change one thing and watch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dropgate.evidence import Costs, EngineFacts, Evidence, PhaseEvidence, RequestRecord, ServerFacts, VariantEvidence
from dropgate.law import VARIANT_NAMES, VariantName, expected_hit
from dropgate.scenario import Scenario, load_scenario

SIZES = (
    "workloads.prefix.requests=6",
    "workloads.prefix.prefix_tokens=4608",
    "workloads.prefix.suffix_tokens=64",
    "workloads.prefix.control=2",
    "promises=[{kind: prefix_law}, {kind: same_outputs}]",
)
LENGTH = 4608 + 64


def scenario() -> Scenario:
    return load_scenario("tiny_eagle3_cpu", SIZES)


@dataclass(frozen=True)
class Counters:
    """A server's counters; each field is one series or one label of it."""

    prompt: int = 0
    computed: int = 0
    hit: int = 0
    external: int = 0
    queries: int = 0
    hits: int = 0
    length: int = 0
    stop: int = 0
    error: int = 0
    preemptions: int = 0
    start: float = 1000.5
    caching: str = "True"
    unit: str = "1536"
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    positions: tuple[int, ...] = (0,) * 7

    def text(self) -> str:
        """Return them as /metrics does."""
        engine = 'engine="0",model_name="m"'
        positions = "\n".join(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{engine},position="{place}"}} {float(count)}'
            for place, count in enumerate(self.positions)
        )
        return f"""# TYPE process_start_time_seconds gauge
process_start_time_seconds {self.start}
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{{engine}}} {float(self.steps)}
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{{{engine}}} {float(self.drafted)}
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{{{engine}}} {float(self.accepted)}
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
{positions}
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{{engine}}} {float(self.queries)}
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{{{engine}}} 1.7961148890143735e+09
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{{{engine}}} {float(self.hits)}
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{{engine}}} {float(self.preemptions)}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{{engine}}} {float(self.prompt)}
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{{{engine},source="local_compute"}} {float(self.computed)}
vllm:prompt_tokens_by_source_total{{{engine},source="local_cache_hit"}} {float(self.hit)}
vllm:prompt_tokens_by_source_total{{{engine},source="external_kv_transfer"}} {float(self.external)}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{engine}}} {float(self.generated)}
# TYPE vllm:request_success_total counter
vllm:request_success_total{{{engine},finished_reason="stop"}} {float(self.stop)}
vllm:request_success_total{{{engine},finished_reason="length"}} {float(self.length)}
vllm:request_success_total{{{engine},finished_reason="error"}} {float(self.error)}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="{self.unit}",enable_prefix_caching="{self.caching}",engine="0",\
mamba_cache_mode="none",prefix_match_unit="None"}} 1.0
"""


@dataclass(frozen=True)
class Seen:
    """One variant's phase, before it is frozen into evidence."""

    populate: list[RequestRecord]
    requests: list[RequestRecord]
    before: Counters
    after: Counters
    control: tuple[RequestRecord, ...] = ()
    reset_ok: bool = True

    def phase(self) -> PhaseEvidence:
        return PhaseEvidence(
            reset_ok=self.reset_ok,
            populate=self.populate,
            requests=self.requests,
            control=list(self.control),
            metrics_before=self.before.text(),
            metrics_after=self.after.text(),
            started_s=10.0,
            finished_s=12.0,
        )


def record(index: int, cached: int, shared: int = 4608) -> RequestRecord:
    return RequestRecord(
        index=index,
        prompt_sha256=f"{index:064x}",
        prompt_tokens_sent=LENGTH,
        shared_tokens=shared,
        http_status=200,
        prompt_tokens=LENGTH,
        cached_tokens=cached,
        prompt_echo_matches=True,
        token_ids=[100 + index],
        top_logprobs=[[(100 + index, -0.5), (7, -1.5)]],
        finish_reason="length",
        sent_s=10.0,
        first_token_s=11.0,
        finished_s=11.5,
    )


def seen(variant: VariantName) -> Seen:
    """Return what a healthy variant shows."""
    hit = expected_hit(4608, LENGTH, 1536, variant)
    before = Counters(prompt=LENGTH, computed=LENGTH, queries=LENGTH, length=1, generated=1)
    after = replace(
        before,
        prompt=before.prompt + 6 * LENGTH,
        computed=before.computed + 6 * (LENGTH - hit),
        hit=6 * hit,
        queries=before.queries + 6 * LENGTH,
        hits=6 * hit,
        length=7,
        generated=7,
    )
    control = (record(0, 0, shared=0), record(1, 0, shared=0)) if variant == "baseline" else ()
    return Seen([record(0, 0, shared=0)], [record(i, hit) for i in range(6)], before, after, control)


def evidence(baseline: Seen | None = None, candidate: Seen | None = None, errors: tuple[str, ...] = ()) -> Evidence:
    """Return a run's evidence; a variant that is not given is healthy."""
    both = {"baseline": baseline or seen("baseline"), "candidate": candidate or seen("candidate")}
    return Evidence(
        dropgate="0",
        scenario=scenario(),
        created="2026-12-01T00:00:00+00:00",
        host={"cpus": 2},
        engine=EngineFacts(version="0.32.0+cpu", python="python"),
        variants={
            name: VariantEvidence(server=facts(), phases={"prefix": both[name].phase()}) for name in VARIANT_NAMES
        },
        errors=list(errors),
        costs=Costs(wall_s=105, engine_s=100, peak_memory_gib=4),
    )


def facts() -> ServerFacts:
    return ServerFacts(
        command=["python", "vllm", "serve", "m"],
        environment={"HF_TOKEN": "(set, not recorded)"},
        served_name="dropgate-0",
        reported_version="0.32.0",
        boot_s=(0.0, 10.0),
    )
