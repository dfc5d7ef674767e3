"""The fields that docs/wire-protocol.md shows in the header of an answer are those that the handler returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from tests.docs.pages import ROOT

pytestmark = pytest.mark.walk

Method = ast.FunctionDef | ast.AsyncFunctionDef


def handler_methods() -> Iterator[tuple[RequestCode, str, Method]]:
    """The code, the module's path and the method of each handler of a broker, a master and a name server."""
    for path in sorted([path for room in ("broker", "namesrv", "replica") for path in (ROOT / room).rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = {each.name: each for each in node.body if isinstance(each, Method)}
            for table in (methods[name] for name in ("handlers", "by_code") if name in methods):
                for entry in ast.walk(table):
                    if isinstance(entry, ast.Dict):
                        for key, value in zip(entry.keys, entry.values, strict=True):
                            match key, value:
                                case ast.Attribute(attr=code), ast.Attribute(attr=name) if name in methods:
                                    yield RequestCode[code], str(path.relative_to(ROOT)), methods[name]


HANDLERS = list(handler_methods())


def described(code: RequestCode) -> set[str]:
    """The header fields in the text about an answer, or in that of the request whose answer it has too."""
    text = SCHEMA[code].answer
    other = re.search(r"as of ([A-Z_]+)", text)
    return set(re.findall(r"`(\w+)`", text)) | (described(RequestCode[other[1]]) if other else set())


def returned(method: Method) -> set[str]:
    """The header fields of each `Reply({...})` of a method."""
    return {
        key.value
        for call in ast.walk(method)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Reply" and call.args
        for header in [call.args[0]]
        if isinstance(header, ast.Dict)
        for key in header.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def test_the_handlers_of_all_requests_to_servers_are_found() -> None:
    elsewhere = ("one-way", "gate", "-> replica")  # clients, the gate of a server, replicas
    served = {code for code, schema in SCHEMA.items() if not any(word in schema.sender for word in elsewhere)}
    assert {code for code, *_ in HANDLERS} == served


@pytest.mark.parametrize(
    ("code", "path", "method"), HANDLERS, ids=[f"{code.name}-{path.partition('/')[0]}" for code, path, _ in HANDLERS]
)
def test_every_field_of_an_answer_is_described_and_no_other(code: RequestCode, path: str, method: Method) -> None:
    assert returned(method) <= described(code)
    room = ROOT / path
    files = [room] if path.count("/") == 1 else room.parent.glob("*.py")
    words = {
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert described(code) <= words
