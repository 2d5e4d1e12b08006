"""Instants as people read them. Pure arithmetic: no clock is asked."""

_DAY_NS = 86_400 * 10**9


def civil(days: int) -> tuple[int, int, int]:
    """Year, month, day of `days` since 1970-01-01 in the proleptic Gregorian calendar.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_shifted + 2) // 5 + 1
    month = month_shifted + 3 if month_shifted < 10 else month_shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def iso_utc(at_ns: int) -> str:
    """`2026-12-01T03:27:23Z` of Unix nanoseconds."""
    days, rest = divmod(at_ns, _DAY_NS)
    year, month, day = civil(days)
    seconds = rest // 10**9
    return f"{year:04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"
