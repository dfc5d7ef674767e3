"""Filters in RocketMQ's language, SQL92 as its clients name it: conditions on the properties of a message. Pure.

Read `nodes.py` first: the parts of an expression, and which operands each of them may have. `grammar.py` and
`parse.py` make them from text, or an error with position, expectation and example; `values.py` compares values as Java
does; `evaluate.py` turns the parts into one function; `compiled.py` keeps the functions of the expressions in use.
RocketMQ: rocketmq-filter.
"""
