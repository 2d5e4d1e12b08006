"""One request inside the engine: what it wants, what it holds, how far it is."""

from collections.abc import Callable

from signoff.sim.blocks import Hash
from signoff.sim.tokens import Ids


class Sequence:
    """A prompt and the answer that will be given to it.

    `answer_ids` are the tokens that the model will generate, in order; `finish` is the reason when they are through.
    Times are seconds of the event loop's clock; `None` means not yet.
    """

    def __init__(
        self,
        *,
        request_id: str,
        prompt: Ids,
        answer_ids: list[int],
        finish: str,
        hashes: list[Hash],
        salt: str,
        max_tokens: int,
        arrived_s: float,
        on_tokens: Callable[["Sequence", int], None],
        on_end: Callable[["Sequence", str], None],
        skip_reading: bool = False,
    ) -> None:
        self.request_id = request_id
        self.prompt, self.answer_ids, self.finish = prompt, answer_ids, finish
        self.hashes, self.salt, self.max_tokens = hashes, salt, max_tokens
        self.on_tokens, self.on_end = on_tokens, on_end
        self.skip_reading = skip_reading
        """The prefix cache is not read for it, and its tokens are not counted as queried."""
        self.computed = 0
        """Tokens whose KV is in held blocks."""
        self.generated = 0
        self.blocks: list[int] = []
        self.state: list[int] = []
        self.cached = 0
        """Prompt tokens found in the prefix cache when it was first scheduled."""
        self.reported_cached = 0
        self.junction = 0
        self.states_wanted: tuple[int, ...] = ()
        self.preemptions = 0
        self.arrived_s = arrived_s
        self.scheduled_s: float | None = None
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.ended = False

    @property
    def known(self) -> int:
        """Tokens whose identity is known: the prompt and what was generated so far."""
        return len(self.prompt) + self.generated
