"""The verdict as JSON for machines: the keys of `verdict.json`, and beside them the findings with their sentences."""

import msgspec

from signoff.core.codec import to_pretty_json
from signoff.report.view import View


def json_text(view: View) -> str:
    """One object; `verdict.json` is a part of it, key by key."""
    told = msgspec.to_builtins(view.verdict)
    told["row"] = view.row
    told["lang"] = view.lang
    told["banners"] = [banner.text for banner in view.banners]
    told["first_reason"] = view.first_reason
    told["next_step"] = view.next_step
    told["findings"] = [
        {
            **msgspec.to_builtins(shown.finding),
            "title": shown.title,
            "sentence": shown.sentence,
            "next_step": shown.next_step,
        }
        for shown in view.all_findings
    ]
    return to_pretty_json(told).decode()
