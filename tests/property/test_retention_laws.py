"""What retention removes, against a naive twin that takes one segment after the other and asks everything again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.retention.plan import RetentionOptions, TrimReason, plan_trim, soft_end
from broker.store.message_store import SegmentSpan


@st.composite
def logs(draw: st.DrawFn) -> list[SegmentSpan]:
    """A log of one to eight segments, whose times never go back."""
    sizes = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    times = sorted(draw(st.lists(st.integers(0, 100), min_size=len(sizes), max_size=len(sizes))))
    base = draw(st.integers(0, 1000))
    log = []
    for size, newest_ms in zip(sizes, times, strict=True):
        log.append(SegmentSpan(base, base + size, newest_ms))
        base += size
    return log


limits = st.one_of(st.none(), st.integers(1, 300))


@st.composite
def options(draw: st.DrawFn) -> RetentionOptions:
    soft, hard = draw(limits), draw(limits)
    if soft is not None and hard is not None:
        soft, hard = min(soft, hard), max(soft, hard)
    return RetentionOptions(retain_ms=draw(limits), retain_bytes=soft, retain_bytes_max=hard)


def naive(log: list[SegmentSpan], now_ms: int, limits: RetentionOptions, needed: int, parked: int) -> list[TrimReason]:
    """Why each segment goes, oldest first."""
    left, reasons = list(log), []
    while len(left) > 1:
        oldest = left[0]
        size = sum(span.end_position - span.base_position for span in left)
        is_needed = needed < oldest.end_position
        is_parked = parked < oldest.end_position
        old = limits.retain_ms is not None and oldest.newest_ms < now_ms - limits.retain_ms
        long = limits.retain_bytes is not None and size > limits.retain_bytes
        too_long = limits.retain_bytes_max is not None and size > limits.retain_bytes_max
        if is_parked:
            break
        if old and not is_needed:
            reasons.append(TrimReason.AGE)
        elif long and not is_needed:
            reasons.append(TrimReason.SIZE)
        elif too_long:
            reasons.append(TrimReason.HARD_LIMIT)
        else:
            break
        left.pop(0)
    return reasons


@given(logs(), st.integers(0, 300), options(), st.data())
def test_what_goes_is_what_a_naive_retention_takes(
    log: list[SegmentSpan], now_ms: int, limits: RetentionOptions, data: st.DataObject
) -> None:
    positions = st.sampled_from([span.base_position for span in log] + [10**6])
    needed, parked = data.draw(positions), data.draw(positions)
    plan = plan_trim(log, now_ms, limits, needed_position=needed, parked_position=parked)
    reasons = naive(log, now_ms, limits, needed, parked)
    assert list(plan.reasons) == reasons
    assert plan.to_position == log[len(reasons)].base_position
    # What is held is what would go besides if nobody needed anything.
    freely = naive(
        log, now_ms, RetentionOptions(retain_ms=limits.retain_ms, retain_bytes=limits.retain_bytes), 10**6, 10**6
    )
    assert soft_end(log, now_ms, limits) == log[len(freely)].base_position
    held = log[len(reasons) : len(freely)]
    assert (plan.held, plan.held_bytes) == (len(held), sum(span.end_position - span.base_position for span in held))
