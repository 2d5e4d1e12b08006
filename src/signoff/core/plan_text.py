"""From the text of a plan file to a Plan, or to an error with file, line, key, what was found and what is allowed."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from signoff.core.plan import PLAN_SCHEMA, Plan
from signoff.core.urls import shown_url, url_fault
from signoff.errors import SignoffError

PLAN_BYTES_MAX = 1_000_000
ITEM_KEYS = {"all", *(str(item) for item in range(1, 14))}


class PlanError(SignoffError):
    """A plan that cannot be used."""


def parse_plan(text: str, place: str = "plan.yaml") -> Plan:
    """The plan in `text`; `place` is the file name that errors show."""
    if len(text) > PLAN_BYTES_MAX:
        raise PlanError(
            f"{place}: {len(text)} characters; a plan has at most {PLAN_BYTES_MAX}", "Give the plan, not a log."
        )
    tree = _yaml(text, place)
    if not isinstance(tree, Mapping):
        raise PlanError(
            f"{place}: a plan is a mapping of keys, found {_found(tree)}", f"Begin with `schema: {PLAN_SCHEMA}`."
        )
    _refuse_unknown_keys(tree, Plan, place, ())
    try:
        plan = msgspec.convert(_plain(tree), Plan, strict=True)
    except msgspec.ValidationError as error:
        raise _explained(error, tree, place) from None
    _refuse_contradictions(plan, tree, place)
    return plan


def _yaml(text: str, place: str) -> Any:
    try:
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise PlanError(f"{place}:{line}: not readable YAML: {error.problem}", "Mend that line.") from None
    except (YAMLError, RecursionError, ValueError) as error:
        raise PlanError(f"{place}: not readable YAML: {type(error).__name__}", "Mend the file.") from None


def _plain(node: Any) -> Any:
    """ruamel's round-trip nodes as builtins, so that msgspec checks types strictly."""
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str):
        return [_plain(value) for value in node]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _found(value: Any) -> str:
    return "nothing" if value is None else f"`{str(value)[:60]}`"


def _line(tree: Any, path: Sequence[str | int]) -> int:
    """The line (from 1) of the deepest node of `path` that exists."""
    line = 1
    for step in path:
        marks = getattr(tree, "lc", None)
        try:
            if marks is not None:
                line = (marks.key(step) if isinstance(tree, Mapping) else marks.item(step))[0] + 1
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            break
    return line


def _name(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _struct_of(hint: Any) -> Any:
    """The Struct class inside a type hint such as `tuple[Node, ...]` or `Start | None`; None when there is none."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for arg in get_args(hint) if (found := _struct_of(arg)) is not None), None)


def _refuse_unknown_keys(tree: Any, kind: Any, place: str, path: tuple[str | int, ...]) -> None:
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        for index, item in enumerate(tree):
            _refuse_unknown_keys(item, kind, place, (*path, index))
        return
    if not isinstance(tree, Mapping):
        return
    hints = get_type_hints(kind)
    allowed = list(kind.__struct_fields__)
    for key, value in tree.items():
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1, cutoff=0.5)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise PlanError(
                f"{place}:{_line(tree, [key])}: unknown key `{_name((*path, str(key)))}`.{meant}",
                f"Keys that may stand here: {', '.join(allowed)}.",
            )
        inner = _struct_of(hints[key])
        if inner is not None:
            _refuse_unknown_keys(value, inner, place, (*path, key))


def _explained(error: msgspec.ValidationError, tree: Any, place: str) -> PlanError:
    """msgspec says ``Expected `int`, got `str` - at `$.objective.concurrency.target` ``; we say where that stands."""
    said, _, where = str(error).partition(" - at `$")
    path: list[str | int] = []
    for step in where.rstrip("`").replace("[", ".[").split("."):
        if step.startswith("["):
            path.append(int(step[1:-1]) if step[1:-1].isdigit() else step[1:-1])
        elif step:
            path.append(step)
    found: Any = tree
    for at in path:
        try:
            found = found[at]
        except (KeyError, IndexError, TypeError):
            found = None
            break
    if isinstance(found, Mapping | list):
        detail = said
    else:
        detail = f"{said}; found {_found(found)}"
    key = f" `{_name(path)}`" if path else ""
    return PlanError(f"{place}:{_line(tree, path)}:{key} {detail}", "Mend that key; every key stands in docs/plan.md.")


def _refuse_contradictions(plan: Plan, tree: Any, place: str) -> None:
    """What types cannot say."""
    for leaf, value in _leaves(tree, ()):
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(tree, place, leaf, f"must be a number that can be measured; found {_found(value)}")
    load, inputs, limits = plan.objective.concurrency, plan.objective.input_tokens, plan.objective.limits
    rate = plan.agent.failure_rate
    rules: tuple[tuple[bool, str, str], ...] = (
        (1 <= load.floor <= load.target, "objective.concurrency", "floor must be at least 1 and at most target"),
        (1 <= inputs.floor <= inputs.target, "objective.input_tokens", "floor must be at least 1 and at most target"),
        (load.hold_s > 0, "objective.concurrency.hold_s", "must be more than 0 seconds"),
        (bool(plan.gates), "gates", "at least one gate is needed"),
        (len(set(plan.gates)) == len(plan.gates), "gates", "a gate stands twice"),
        (len({n.name for n in plan.nodes}) == len(plan.nodes), "nodes", "two nodes have the same name"),
        (_share(plan.load.reuse_share), "load.reuse_share", "is a share from 0 to 1"),
        (_share(limits.error_rate), "objective.limits.error_rate", "is a share from 0 to 1"),
        (_share(limits.preempted_share), "objective.limits.preempted_share", "is a share from 0 to 1"),
        (_positive(limits.ttft_ms_p99), "objective.limits.ttft_ms_p99", "must be more than 0 milliseconds"),
        (_positive(limits.itl_ms_p99), "objective.limits.itl_ms_p99", "must be more than 0 milliseconds"),
        (_positive(limits.queue_ms_p99), "objective.limits.queue_ms_p99", "must be more than 0 milliseconds"),
        (rate.limit is None or 0 < rate.limit < 1, "agent.failure_rate.limit", "is a share between 0 and 1"),
        (0.5 <= rate.confidence < 1, "agent.failure_rate.confidence", "must be at least 0.5 and less than 1"),
        (_positive(rate.attempts_max), "agent.failure_rate.attempts_max", "must be at least 1"),
        (_positive(plan.prefix.rounds), "prefix.rounds", "must be at least 1"),
        (_positive(plan.prefix.prompt_tokens), "prefix.prompt_tokens", "must be at least 1"),
        (_positive(plan.load.soak.hours), "load.soak.hours", "must be more than 0 hours"),
        (_positive(plan.load.soak.concurrency), "load.soak.concurrency", "must be at least 1"),
        (all(n > 0 for n in plan.load.long_input.steps), "load.long_input.steps", "must each be at least 1"),
        (all(n > 0 for n in plan.load.concurrency.steps), "load.concurrency.steps", "must each be at least 1"),
        (plan.review.threshold >= 1, "review.threshold", "must be at least 1"),
        (set(plan.review.items) <= ITEM_KEYS, "review.items", "keys are checklist items, 1 to 13, or all"),
    )
    for holds, path, words in rules:
        if not holds:
            _refuse(tree, place, path.split("."), words)
    service = plan.service
    urls = [("base_url", service.base_url), ("metrics", *service.metrics), ("gpu_metrics", *service.gpu_metrics)]
    if service.gateway_url not in (None, "none"):
        urls.append(("gateway_url", service.gateway_url or ""))
    for key, *given in urls:
        for url in given:
            if fault := url_fault(url):
                _refuse(tree, place, ("service", key), f"{shown_url(url)}: {fault}")


def _refuse(tree: Any, place: str, path: Sequence[str | int], words: str) -> None:
    raise PlanError(f"{place}:{_line(tree, path)}: `{_name(path)}`: {words}", "Mend that key.")


def _share(value: float | None) -> bool:
    return value is None or 0 <= value <= 1


def _positive(value: float | None) -> bool:
    return value is None or value > 0


def _leaves(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path, node
