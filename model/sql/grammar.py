"""The grammar of filters, for lark. RocketMQ: SelectorParser.jj.

A word is one token, and becomes a keyword afterwards (`KEYWORDS`), so `android` is a property and `AND` is not.
"""

from __future__ import annotations

GRAMMAR = r"""
start: _or

_or: and_list | or_list
or_list: and_list (OR and_list)+
and_list: _equality (AND _equality)*

_equality: equal | is_null | _comparison
equal: _equality (EQ | NE) _comparison
is_null: _equality IS [NOT] NULL

_comparison: compare | between | in_list | text | _unary
compare: _comparison (GT | GE | LT | LE) _unary
between: _comparison [NOT] BETWEEN _unary AND _unary
in_list: _comparison [NOT] IN _OPEN STRING (_COMMA STRING)* _CLOSE
text: _comparison [NOT] (CONTAINS | STARTSWITH | ENDSWITH) STRING

_unary: _primary | _PLUS _unary | negate | not_
negate: MINUS _unary
not_: NOT _unary
_primary: constant | property | _OPEN _or _CLOSE
constant: STRING | INTEGER | DECIMAL | TRUE | FALSE | NULL
property: ID

%declare NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH
EQ: "="
NE: "<>"
GE: ">="
GT: ">"
LE: "<="
LT: "<"
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
_PLUS: "+"
MINUS: "-"
STRING: /'(?:''|[^'])*'/
DECIMAL.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
INTEGER: /0|[1-9][0-9]*[lL]?/
ID: /[A-Za-z_$][A-Za-z0-9_$]*/
SPACE: /[ \t\n\r\f]+/
LINE_COMMENT.2: /--[^\n\r]*[\n\r]/
BLOCK_COMMENT.2: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
%ignore SPACE
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
"""The reserved words, in any case; a property with one of these names cannot be named in a filter."""

WORDS = {
    **{word: word for word in KEYWORDS},
    **{"EQ": "=", "NE": "<>", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"},
    **{"_OPEN": "'('", "_CLOSE": "')'", "_COMMA": "','", "_PLUS": "+", "MINUS": "-"},
    **{"STRING": "a text as 'north'", "INTEGER": "a number", "DECIMAL": "a number", "ID": "the name of a property"},
    "$END": "the end",
}
"""The names of tokens in the text of an error."""
