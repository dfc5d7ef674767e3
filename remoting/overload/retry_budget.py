"""RetryBudget: decides when a client may ask a server again that has refused requests. Pure.

There is one for each server, not one for each queue or request: a thousand loops that each wait a second of their own
return as a thousand requests. Pauses grow while the server refuses, and are jittered. At the end of a pause the
requests that waited for it leave one after the other.

    budget.refused(now=10.0, asked_s=0.5, jitter=0.2)   the server asks for half a second
    budget.wait_s(10.1) -> 0.452                       a request may leave at 10.552
    budget.wait_s(10.1) -> 0.454                       and the next one 2 ms after it
    budget.answered(now=10.7)                          the pause is over: the next pause is short again

Exponential back-off with jitter: Brooker, "Exponential Backoff And Jitter", AWS 2015. One budget instead of retries of
each call: "Retry budgets" in Site Reliability Engineering, chapter 21, Google 2016.
"""

from __future__ import annotations

from model.limits import MAX_RETRY_PAUSE_S, RETRY_PAUSE_S, RETRY_SPACING_S

_MAX_DOUBLINGS = 8


class RetryBudget:
    """The pauses of one server."""

    __slots__ = ("_ends_at", "_next_at", "_refusals")

    def __init__(self) -> None:
        self._refusals = 0
        self._ends_at = 0.0
        self._next_at = 0.0

    def refused(self, now: float, asked_s: float, jitter: float) -> None:
        """Record that a request was refused, with the pause that the server asked for.

        The jitter, 0 to 1, lengthens the pause by up to a half. Many refusals within one pause count as one: the
        requests were sent before it began.
        """
        if now < self._ends_at:
            return
        pause_s = min(MAX_RETRY_PAUSE_S, max(asked_s, RETRY_PAUSE_S * (1 << self._refusals)))
        self._refusals = min(_MAX_DOUBLINGS, self._refusals + 1)
        self._ends_at = self._next_at = now + pause_s * (1 + jitter / 2)

    def answered(self, now: float) -> None:
        """Record that a request was served; one that was sent before the pause does not end it."""
        if now >= self._ends_at:
            self._refusals = 0

    def wait_s(self, now: float) -> float:
        """Seconds that the next request has to wait; 0 for at once. Each call reserves the next slot."""
        if not self._refusals or (now >= self._next_at and now >= self._ends_at):
            return 0.0
        retry_at = self._next_at = max(now, self._next_at) + RETRY_SPACING_S
        return retry_at - now
