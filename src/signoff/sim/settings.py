"""What the simulated service is: sizes, speeds, and the strengths of its faults."""

from msgspec import Struct

WINDOW_TOKENS = 1_048_576
MODEL = "kimi-k3"
ARCHITECTURE = "KimiK3ForConditionalGeneration"
VLLM_VERSION = "0.32.0"


class Settings(Struct, frozen=True, kw_only=True):
    """One simulated service. Sizes in tokens or blocks, times in the unit their names end in."""

    model: str = MODEL
    architecture: str = ARCHITECTURE
    version: str = VLLM_VERSION
    root: str = "/models/Kimi-K3"
    """Path of the weights, as `/v1/models` and the launch log say it."""
    api_key: str | None = None
    seed: int = 1
    window: int = WINDOW_TOKENS
    unit: int = 1536
    """Tokens of one KV block; also the alignment of prefix hits."""
    kv_blocks: int = 3287
    """Blocks in the pool, the null block not counted."""
    state_blocks: int = 3
    """Blocks a running request holds for its recurrent state, beside one per `unit` tokens; 0: not a hybrid."""
    sparse: bool = False
    """Retention rule of prefix states: every boundary, or (0.32 default) replay boundaries and junctions."""
    prefix_caching: bool = True
    tool_parser: str | None = "kimi_k3"
    reasoning_parser: str | None = "kimi_k3"
    token_details: bool = True
    """`--enable-prompt-tokens-details`."""
    dev_mode: bool = False
    """Development endpoints are there."""
    slots: int = 256
    """`max_num_seqs`."""
    step_tokens: int = 16_384
    """`max_num_batched_tokens`: the most tokens computed in one step."""
    prefill_tokens_per_s: float = 1_000_000.0
    step_ms: float = 4.0
    """Time of a step that computes nothing but one token a request."""
    stream_us: float = 10.0
    """Time that each decoding request adds to a step."""
    jitter_share: float = 0.02
    """Seeded spread of step times."""
    stats_s: float = 10.0
    """Interval of the stats line in the launch log."""
    faults: dict[str, float] = {}
    """Fault name to strength; what a strength means stands in `sim.faults`."""

    @property
    def thinking(self) -> bool:
        """Whether the model can reason at all."""
        return self.reasoning_parser is not None

    @property
    def concurrency_max(self) -> float:
        """Requests of the whole window that the pool holds at once."""
        return self.kv_blocks / (-(-self.window // self.unit) + self.state_blocks)

    @property
    def kv_tokens(self) -> int:
        """What the launch log calls the KV cache size."""
        return int(self.concurrency_max * self.window)
