"""When a run says that it started, beside the clock of whoever reads that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# A machine whose clock is off by a time zone is a day ahead at most; what is later than that has not happened.
CLOCK_SKEW = timedelta(days=1)


def moment(iso: object) -> datetime | None:
    """An ISO time, in UTC where it names no zone; None for what is none."""
    try:
        when = datetime.fromisoformat(str(iso))
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def is_ahead(iso: object, now: datetime) -> bool:
    """Whether this time lies further in the future than clocks differ."""
    when = moment(iso)
    return when is not None and when - now > CLOCK_SKEW
