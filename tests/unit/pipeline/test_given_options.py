"""Options are found in any case; what is wrong with one is said with its name."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from pipeline.given_options import OF_KAFKA, GivenOptions
from pipeline.source.options import OPTIONS

KNOWN = ("topic", "sendRetries", "useArrow")


def given(**options: str) -> GivenOptions:
    return GivenOptions(options, KNOWN, "sink", ("checkpointLocation",))


def test_names_are_found_in_any_case_and_values_without_blanks() -> None:
    options = given(TOPIC=" t ", SendRetries="3", usearrow="FALSE", checkpointlocation="/c")
    assert (options.text("topic"), options.number("sendRetries", 5, 0), options.flag("useArrow", True)) == (
        *("t", 3),
        False,
    )
    assert options.has("Topic")
    assert not options.has("other")


def test_what_is_not_given_has_its_default() -> None:
    options = given()
    assert options.number("sendRetries", 5, 0) == 5
    assert options.number_or_none("sendRetries", 0) is None
    assert options.one_of("topic", "first", "second") == "first"


def test_an_unknown_name_is_an_error_that_knows_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="the rlab sink has no option 'sendretry': did you mean sendRetries"):
        given(sendretry="1")
    with pytest.raises(ConfigError, match="known are topic, sendRetries, useArrow"):
        given(xyz="1")


def test_an_option_of_kafka_is_answered_with_ours() -> None:
    for name, ours in OF_KAFKA.items():
        with pytest.raises(ConfigError, match=f"that is an option of Kafka; use {ours}"):
            GivenOptions({name: "x"}, OPTIONS, "source")
    with pytest.raises(ConfigError, match="options of Kafka's clients have no meaning here"):
        GivenOptions({"kafka.client.id": "x"}, OPTIONS, "source")


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "101", "9" * 20])
def test_a_number_out_of_its_range_is_an_error_that_names_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"option sendRetries: .* is not a whole number from 0 to 100"):
        given(sendRetries=text).number("sendRetries", 5, 0, 100)


def test_a_word_or_flag_that_is_none_is_an_error_that_names_the_option() -> None:
    assert given(topic="SECOND").one_of("topic", "first", "second") == "second"
    with pytest.raises(ConfigError, match="option topic: 'third' is not one of first, second"):
        given(topic="third").one_of("topic", "first", "second")
    with pytest.raises(ConfigError, match="option useArrow: 'yes' is neither true nor false"):
        given(useArrow="yes").flag("useArrow", True)
