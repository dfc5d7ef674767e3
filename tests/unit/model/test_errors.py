"""The error tree: one class per wire code, and flags that are true of what they say."""

from __future__ import annotations

import inspect
import re

import pytest

from model import errors
from model.errors import ERROR_BY_CODE, RlabError, SystemError_, make_error
from model.response_code import ResponseCode

pytestmark = pytest.mark.walk

CLASSES = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, RlabError) and cls is not RlabError
]
BRANCHES = {errors.UsageError, errors.ServerError, errors.NegativeAnswer, errors.ClientFailed, errors.NetworkError}
INDEFINITE = {
    errors.SystemError_,
    errors.FlushDiskTimeout,
    errors.ReplicationTimeout,
    errors.RegisterUnavailable,
    errors.NetworkError,
    errors.ConnectionLost,
    errors.RequestTimeout,
    errors.ProtocolError,
}


def test_every_code_but_success_has_exactly_one_class() -> None:
    assert set(ERROR_BY_CODE) == set(ResponseCode) - {ResponseCode.SUCCESS}
    assert len(set(ERROR_BY_CODE.values())) == len(ERROR_BY_CODE)


def test_every_class_with_a_code_is_the_class_of_that_code() -> None:
    for cls in CLASSES:
        if cls.code is not None:
            assert ERROR_BY_CODE[cls.code] is cls


@pytest.mark.parametrize("code", [code for code in ResponseCode if code is not ResponseCode.SUCCESS])
def test_a_code_becomes_its_class_with_the_text_of_the_server(code: ResponseCode) -> None:
    error = make_error(int(code), "because of 42")
    assert type(error) is ERROR_BY_CODE[code]
    assert error.code is code
    assert str(error) == "because of 42"


@pytest.mark.parametrize("code", [-1, 4, 205, 1_000_000])
def test_an_unknown_code_is_a_system_error_that_names_it(code: int) -> None:
    error = make_error(code, "from the future")
    assert type(error) is SystemError_
    assert str(error) == f"unknown response code {code}: from the future"


def test_the_header_draws_the_tree_that_the_classes_form() -> None:
    branch, pairs, codes = "", set(), {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"\s+(\|?\s*)\+-- (\w+)", line)
        if match is None:
            continue
        name = match[2]
        top = not match[1].strip() and name in {cls.__name__ for cls in BRANCHES}
        branch = name if top else branch
        pairs.add((name, "RlabError" if top else branch))
        code = re.search(r"\s([A-Z]+(?:_[A-Z]+)+)$", line)
        if code:
            codes[name] = code[1]
    assert pairs == {(cls.__name__, cls.__mro__[1].__name__) for cls in CLASSES}
    assert codes == {cls.__name__: cls.code.name for cls in CLASSES if cls.code is not None}


@pytest.mark.parametrize("cls", CLASSES)
def test_only_an_unknown_effect_is_indefinite(cls: type[RlabError]) -> None:
    # Indefinite: the request may have been carried out. True of what broke after it could have been sent, of a server
    # that failed midway, and of a write that is there but not safely so; every refusal is definite.
    assert cls.definite is (cls not in INDEFINITE)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_retry_helps_where_the_fault_is_not_in_the_request(cls: type[RlabError]) -> None:
    if issubclass(cls, errors.UsageError):
        assert not cls.retryable
    elif issubclass(cls, errors.ServerError):
        assert cls.retryable
    elif issubclass(cls, errors.NetworkError):
        assert cls.retryable is (cls is not errors.ProtocolError)
    else:
        assert cls.retryable is (cls in {errors.PullNotFound, errors.PullRetryImmediately})


def test_every_error_can_be_caught_as_one() -> None:
    with pytest.raises(RlabError):
        raise errors.RequestTimeout("no answer in 3 s")
