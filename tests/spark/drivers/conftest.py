"""What these tests look at runs Spark in processes of its own, so any process of the run may have them.

They do without the session that the others share: it would be a second one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.spark_cluster import ClusterProcesses, cluster_processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """A cluster of one broker for the tests of one file."""
    with cluster_processes(tmp_path_factory.mktemp("cluster")) as running:
        yield running
