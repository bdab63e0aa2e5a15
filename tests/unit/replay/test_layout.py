"""Layout files: impossible values give one line with file and key."""

import pytest
import yaml

from dropgate.errors import InputError
from dropgate.replay.layout import load_replay
from dropgate.replay.run import replay_names, replay_path

NAMES = ["dense_eagle3", "dflash", "fine_grained", "hybrid_mtp", "kimi_k3_dspark", "sliding_window", "three_groups"]


def test_the_seven_layouts_are_there():
    assert replay_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_loads_under_its_own_name(name):
    assert load_replay(replay_path(name)).name == name


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="known: dense_eagle3, dflash"):
        replay_path("dense")


def change(data, path, value):
    *above, last = path
    for step in above:
        data = data[step]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("layout", "cache", "num_blocks"), 1, "'layout.cache.num_blocks': Input should be greater than or equal to 2"),
        (("layout", "cache", "num_blocks"), "512", "'layout.cache.num_blocks': Input should be a valid integer"),
        (("layout", "cache", "prefix_match_unit"), 100, "prefix_match_unit 100 does not divide block_size 1536"),
        (("layout", "cache", "blocks"), 5, "unknown key 'layout.cache.blocks'; did you mean"),
        (("layout", "drafter", "num_speculative_tokens"), 0, "'layout.drafter.num_speculative_tokens'"),
        (("layout", "drafter", "method"), "medusa", "'layout.drafter.method'"),
        (("layout", "drafter", "method"), "mtp", "method mtp takes no config"),
        (("layout", "scheduler", "max_num_batched_tokens"), 4, "max_num_batched_tokens 4 is below max_num_seqs 16"),
        (("layout", "target", "config"), {}, "config needs architectures and model_type"),
        (("layout", "layers"), [], "'layout.layers'"),
        (("layout", "layers", 0, "kind"), "sliding_window", "sliding_window belongs to layers of kind"),
        (("layout", "layers", 0, "kind"), "mamba", "a mamba layer takes no num_kv_heads"),
        (("layout", "layers", 0, "head_size"), None, "a full layer needs a head_size"),
        (("layout", "layers", 0, "count"), 0, "'layout.layers.0.count'"),
        (("layout", "layers", 1, "name"), "model.layers", "two entries share one name"),
        (("workloads", 0, "num_prompts"), -1, "'workloads.0.num_prompts'"),
        (("workloads", 0, "kind"), "flood", "'workloads.0'"),
        (("workloads", 1, "name"), "scenario_a", "two entries share one name"),
    ],
)
def test_an_impossible_value_gives_one_line_with_file_and_key(tmp_path, path, value, said):
    data = yaml.safe_load(replay_path("dense_eagle3").read_text())
    change(data, path, value)
    file = tmp_path / "broken.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(InputError) as error:
        load_replay(file)
    message = str(error.value)
    assert message.startswith(str(file))
    assert said in message
    assert "\n" not in message
