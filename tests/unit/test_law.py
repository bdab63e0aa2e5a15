"""The law, against values measured on a real engine."""

import pytest

from dropgate.law import expected_hit


@pytest.mark.parametrize(
    ("length", "drop", "kept"), [(48, 16, 32), (64, 32, 48), (65, 48, 64), (80, 48, 64), (81, 64, 80)]
)
def test_exact_repeat_with_unit_16(length: int, drop: int, kept: int) -> None:
    assert expected_hit(length, length, 16, "baseline") == drop
    assert expected_hit(length, length, 16, "candidate") == kept


@pytest.mark.parametrize(("length", "drop"), [(1024, 768), (1025, 896)])
def test_exact_repeat_with_unit_128(length: int, drop: int) -> None:
    assert expected_hit(length, length, 128, "baseline") == drop


def test_scenario_a() -> None:
    assert expected_hit(12288, 12544, 1536, "baseline") == 10752
    assert expected_hit(12288, 12544, 1536, "candidate") == 12288


@pytest.mark.parametrize("shared", [0, 1, 15])
def test_below_one_unit_nothing_is_reused(shared: int) -> None:
    assert expected_hit(shared, 100, 16, "baseline") == expected_hit(shared, 100, 16, "candidate") == 0
