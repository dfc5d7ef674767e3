"""The C++ client of RocketMQ, which a Python package carries, on a broker of this project: `make interop` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clients import cpp_client
from tests.interop.features import features_of
from tests.interop.servers import cluster

FEATURE = "send, and properties"


def test_the_cpp_client_sends_a_message_with_properties_and_receives_it(tmp_path: Path) -> None:
    program = cpp_client(tmp_path / "package")
    if program is None:
        pytest.skip("the package of the C++ client does not install here")
    assert features_of(program, cluster, FEATURE) == {FEATURE: "ok"}
