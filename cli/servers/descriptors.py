"""The number of connections for which the descriptors of this process are enough, beside its files.

A socket and a file are a descriptor each. A server that gives all of them to connections cannot begin the next segment
or open an old one any more, so some are kept back, and connections beyond the others are refused.
"""

from __future__ import annotations

import logging
import resource

from model.errors import ConfigError
from model.limits import RESERVED_DESCRIPTORS

logger = logging.getLogger(__name__)


def connections_within_limits(wanted: int) -> int:
    """Raise this process's limit of descriptors as far as it may and is of use; return how many connections fit.

    Fewer than wanted are a warning.

    Raises:
        ConfigError: the limit is too low for anything.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_DESCRIPTORS
    limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    fit = limit - RESERVED_DESCRIPTORS
    if fit < 1:
        raise ConfigError(
            f"this process may open {limit} files and connections, and keeps {RESERVED_DESCRIPTORS} for files: raise "
            f"the limit with 'ulimit -n {needed}' or LimitNOFILE={needed} of systemd"
        )
    if fit < wanted:
        logger.warning(
            "this process may open %d files and connections, so it takes %d connections and not %d; for all of them, "
            "raise the limit with 'ulimit -n %d' or LimitNOFILE=%d of systemd",
            *(limit, fit, wanted, needed, needed),
        )
    return fit
