"""The prefix gate's side of the world: prompts whose every token is known, and counters around each request."""
