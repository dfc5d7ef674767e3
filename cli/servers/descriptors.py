"""The number of connections for which the descriptors of this process are enough, beside its files.

A socket and a file are a descriptor each. A server that gives all of them to connections can no longer begin the next
segment or open an old one, so some are kept back, and connections beyond the others are refused.
"""

from __future__ import annotations

import logging
import resource
from typing import NamedTuple

from model.errors import ConfigError
from model.limits import (
    HTTP_PART_OF_DESCRIPTORS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_ADDRESS,
    MAX_HTTP_CONNECTIONS,
    MIN_DESCRIPTORS,
    RESERVED_DESCRIPTORS,
)

logger = logging.getLogger(__name__)


class Fit(NamedTuple):
    """The numbers of connections that fit; options of servers."""

    max_connections: int
    max_connections_of_address: int


def connections_within_limits(needed_connections: int = MAX_CONNECTIONS, *, http: bool = False) -> Fit:
    """Raise this process's limit of descriptors to the allowed and useful number; return how many connections fit.

    Fewer than wanted are a warning. `http` says whether the process has an HTTP port, too, which takes its own part.

    Raises:
        ConfigError: the limit is too low for anything.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = needed_connections + RESERVED_DESCRIPTORS + (MAX_HTTP_CONNECTIONS if http else 0)
    limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    advice = f"raise the limit with 'ulimit -n {needed}' or LimitNOFILE={needed} of systemd"
    if limit < MIN_DESCRIPTORS:
        raise ConfigError(
            f"this process may open {limit} files and connections, and needs {MIN_DESCRIPTORS} at least: {advice}"
        )
    of_http = min(MAX_HTTP_CONNECTIONS, limit // HTTP_PART_OF_DESCRIPTORS) if http else 0
    fit = limit - min(RESERVED_DESCRIPTORS, limit // 2) - of_http
    if fit < needed_connections:
        logger.warning(
            "this process may open %d files and connections, so it takes %d connections and not %d; for all, %s",
            *(limit, fit, needed_connections, advice),
        )
    return Fit(fit, fit * MAX_CONNECTIONS_OF_ADDRESS // MAX_CONNECTIONS)
