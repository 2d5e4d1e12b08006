"""Profiles: those that come along are sound, others are read from files with errors that help."""

from pathlib import Path

import pytest

from signoff.errors import SignoffError
from signoff.judge.environment import LINKS
from signoff.run.profiles import load_profile, names


def test_the_profiles_that_come_along() -> None:
    assert names() == ["generic-vllm", "kimi-k3", "kimi-k3-simulated", "vllm-cpu"]


@pytest.mark.parametrize("name", names())
def test_each_profile_is_sound(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert {link.name for link in profile.chain} <= set(LINKS)
    assert all(source.url.startswith("https://") for source in profile.sources)


def test_the_simulated_profile_demands_what_the_real_one_does() -> None:
    real, simulated = load_profile("kimi-k3"), load_profile("kimi-k3-simulated")
    assert (simulated.scope, real.scope) == ("simulated", "production")
    for part in ("chain", "launch", "cache", "architectures", "weights_gib", "forbidden_fallbacks"):
        assert getattr(real, part) == getattr(simulated, part)
    assert simulated.floors.soak_s < 60 < real.floors.soak_s


def test_the_recipe_is_cited_by_digest() -> None:
    recipe = load_profile("kimi-k3").sources[0]
    assert recipe.source_class == "recipe"
    assert len(recipe.digest) == 64


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(SignoffError, match="generic-vllm, kimi-k3, kimi-k3-simulated, vllm-cpu"):
        load_profile("kimi-k4")


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_may_extend_a_profile(tmp_path: Path) -> None:
    own = load_profile(written(tmp_path, "extends: vllm-cpu\nname: own\ntitle: Own\n"))
    assert (own.name, own.scope) == ("own", "laboratory")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a list\n", "mapping"),
        ("a: [1\n", "not readable YAML"),
        ("extends: vllm-cpu\nscopes: laboratory\n", "scopes"),
        ("extends: vllm-cpu\nfloors: {soak_s: many}\n", "floors"),
        ("extends: {path}\n", "circle"),
        ("extends: vllm-cpu\nchain: [{name: platform, demand: {equals: cpu}, source: hearsay}]\n", "hearsay"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SignoffError, match=said) as refused:
        load_profile(written(tmp_path, text.replace("{path}", str(tmp_path / "own.yaml"))))
    assert refused.value.exit_code == 2


def test_a_community_report_cannot_make_a_demand(tmp_path: Path) -> None:
    text = """extends: vllm-cpu
sources:
  - {id: vllm-cpu, title: a forum, url: "https://example.org", version: "1", read_on: "2026-12-01",
     source_class: community_report}
"""
    with pytest.raises(SignoffError, match="community_report cannot make a demand"):
        load_profile(written(tmp_path, text))


def test_a_missing_file_is_said() -> None:
    with pytest.raises(SignoffError, match="cannot read"):
        load_profile("/nowhere/own.yaml")
