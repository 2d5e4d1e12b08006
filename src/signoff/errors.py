"""What can go wrong that a person can mend: one class, always with what, where and what to do.

Anything else that escapes is a defect of ours: exit code 1 and a traceback.
"""

USAGE, OWN_FAULT, REFUSED, INTERRUPTED = 2, 1, 3, 130


class SignoffError(Exception):
    """A fault a person can mend. `message` says what and where, `hint` what to do; `exit_code` is 2 unless said."""

    def __init__(self, message: str, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message
