"""What the model and the interface layer say wrong, read from the faults that are on.

Each fault draws from its own seeded stream, by request id, so that a run with the same ids fails in the same places.
"""

from signoff.core.workload import rng
from signoff.sim.model import Question, Thought, Token
from signoff.sim.settings import Settings
from signoff.sim.tokens import Ids


class Mouth:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.faults = settings.faults
        self._taken = 0

    def refuses(self, open_requests: int) -> bool:
        """Whether this request gets a 500 at the door."""
        limit = self.faults.get("conc-errors")
        return limit is not None and open_requests >= limit

    def breaks_after(self, streamed: bool) -> int | None:
        """Tokens after which this stream ends in an error event; `None`: it does not."""
        self._taken += 1
        share = self.faults.get("soak-inband-error")
        if share is None or not streamed:
            return None
        draw = rng("inband", self.settings.seed, self._taken)
        return draw.randint(2, 6) if draw.random() < share else None

    def cached_as(self, prompt: Ids, count: int) -> Ids:
        """The prompt as the prefix cache is shown it."""
        if "prefix-nonce" not in self.faults:
            return prompt
        changed = prompt.copy()
        changed[:1] = -count
        return changed

    def thought(self, thought: Thought, question: Question, request_id: str, prompt_tokens: int) -> Thought:
        """What the model means to say, broken as the faults say."""
        return thought

    def tokens(self, tokens: list[Token], finish: str, thought: Thought, request_id: str) -> tuple[list[Token], str]:
        """The tokens, broken as the faults of the interface layer say."""
        return tokens, finish
