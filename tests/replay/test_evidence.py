"""The judge that reads a server's evidence reads a replay's."""

import pytest

from dropgate.judge.identities import judge_identities
from dropgate.judge.prefix import judge_prefix
from dropgate.judge.verdict import Verdict, combine
from dropgate.judge.view import view_phase
from dropgate.law import VARIANT_NAMES
from dropgate.replay.evidence import phase_evidence
from dropgate.scenario.promises import PrefixPromise
from tests.replay.driving import both, scenario, workload


@pytest.mark.parametrize("name", ["dense_eagle3", "hybrid_mtp", "kimi_k3_dspark"])
def test_the_judge_passes_scenario_a(name):
    layout = scenario(name).layout
    seen = both(layout, workload(name, "scenario_a").model_copy(update={"output_len": 9}))
    views = [
        view_phase("prefix", variant, phase_evidence(one)) for variant, one in zip(VARIANT_NAMES, seen, strict=True)
    ]
    checks = judge_prefix(*views, PrefixPromise(kind="prefix_law"))
    for view in views:
        checks += judge_identities(view, layout.drafter.num_speculative_tokens)
    assert [check for check in checks if check.verdict is not Verdict.PASS] == []
    assert combine(check.verdict for check in checks) is Verdict.PASS
