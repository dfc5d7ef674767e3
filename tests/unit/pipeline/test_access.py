"""Options name the key and the certificates of one read or write; without them the environment decides."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from pipeline.access import ACCESS_OPTIONS, AccessFiles, access_files
from pipeline.given_options import GivenOptions

OF_PROCESS = {
    "PATH": "/bin",
    "RLAB_KEY": "ops:secret",
    "RLAB_KEY_FILE": "/env/key",
    "RLAB_TLS_CA": "/env/ca",
    "RLAB_TLS_CERT": "/env/cert",
    "RLAB_TLS_KEY": "/env/key.pem",
}


def files(**options: str) -> AccessFiles:
    return access_files(GivenOptions(options, ACCESS_OPTIONS, "source"))


def changed(**options: str) -> dict[str, str]:
    """The variables that the options change."""
    found = files(**options).environment(OF_PROCESS)
    assert found.keys() == OF_PROCESS.keys()
    return {name.removeprefix("RLAB_"): value for name, value in found.items() if value != OF_PROCESS[name]}


def test_without_options_the_environment_decides() -> None:
    assert changed() == {}
    assert files() == AccessFiles()


def test_a_key_file_replaces_every_key_of_the_environment_and_none_removes_it() -> None:
    assert changed(keyFile="/my/key") == {"KEY_FILE": "/my/key", "KEY": ""}
    assert changed(keyfile="None") == {"KEY_FILE": "", "KEY": ""}


def test_an_authority_replaces_the_certificates_of_the_environment_too_and_none_is_without_tls() -> None:
    assert changed(tlsCa="/my/ca") == {"TLS_CA": "/my/ca", "TLS_CERT": "", "TLS_KEY": ""}
    assert changed(tlsCa="none") == {"TLS_CA": "", "TLS_CERT": "", "TLS_KEY": ""}
    own = {"TLS_CA": "/my/ca", "TLS_CERT": "/my/cert", "TLS_KEY": "/my/key"}
    assert changed(tlsCa="/my/ca", tlsCert="/my/cert", tlsKey="/my/key") == own


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tlsCert": "/c"}, "option tlsCert needs option tlsCa"),
        ({"tlsCa": "/a", "tlsKey": "/k"}, "option tlsKey needs option tlsCert"),
        ({"tlsCa": "none", "tlsCert": "/c"}, "option tlsCert: a certificate is shown only with TLS"),
        ({"keyFile": " "}, "option keyFile: write the path of a file, or none"),
    ],
)
def test_half_of_a_pair_and_an_empty_path_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        files(**options)
