"""The words that prose of this project does not use: the table that `test_prose.py` applies to code and pages.

Programs report, log, receive, record, schedule, check and send; people may tell and learn. A clause has a noun at its
head: "the rows that it has", not "what it has". A pattern that is too strict for one sentence has a row in `ALLOWED`,
with the reason.
"""

from __future__ import annotations

ASKING = "".join(
    f"(?<!{verb} what)"
    for stem in [
        "say",
        "show",
        "know",
        "ask",
        "decide",
        "see",
        "explain",
        "describe",
        "check",
        "report",
        "log",
        "print",
    ]
    for verb in (stem, f"{stem}s", f"{stem[:-1] if stem.endswith('e') else stem}ing")
)
"""Not behind a verb that takes a question: "shows what is missing" has a head."""

PATTERNS: tuple[tuple[str, str, str], ...] = (
    (r"\b(?:tells?|telling|told)\b", "the broker tells its members", "the broker notifies its members"),
    (r"\bhear(?:s|d|ing)?\b", "it has not heard from it", "it has received nothing from it"),
    (
        r"\blearn(?:s|ed|t|ing)? (?:that|of|it|the|which|whether|about|from)\b",
        "it learns of a leave",
        "it sees a leave",
    ),
    (r"\bow(?:e|es|ed)\b", "notifications that it owes", "notifications that are due"),
    (r"\bwho(?:ever|mever)\b", "whoever was refused waits", "a refused member waits"),
    (r"\b(?:no|some)body\b", "nobody needs the segment", "no group needs the segment"),
    (
        r"(?:^|[.:;,] |\b(?:and|or|but|only|also|to|for|by|in|on|at|from|with|of|all|not) )(?:that|those) of\b",
        "and those of other topics",
        "its limit is larger than that of the server",
    ),
    (
        rf"\bwhat{ASKING} (?:is|has|was|it|they|there|comes?)\b(?![^.!?]*\?)",
        "it sends what it has",
        "what is a lease? the page shows what is missing",
    ),
    (r"(?<!\bthere )\b(?:is|are|was|were|be) (?-i:none)\b", "a copy without it is none", "there is none; x is None"),
    (
        r"(?<!\bthere )(?<!\bthere ever )\b(?:is|are|was|were) no (?!(?:longer|more|less|later|larger|fewer|other)\b)",
        "that is no request",
        "there is no request; it is no longer one",
    ),
    (r"\bas far as\b", "as far as it is known", "the part that is known"),
    (r"\bso (?:many|much|long)\b(?!(?: \w+)? that\b)", "with so many of them", "so many messages that it waits"),
    (r"\bany ?more\b", "it is not stored any more", "it is no longer stored; how many more offsets it may have"),
    (r"\bshipped\b", "the shipped brokers run in the simulation", "the real brokers run in the simulation"),
    (r"\bmeanwhile\b", "it has ended meanwhile", "it ended in between"),
    (r"\bby (?:now|then)\b", "it is over by now", "it is over"),
    (r"\banew\b", "it begins anew", "it starts again"),
    (
        r", for (?:(?:it|they|he|we|there|what)\b|(?:the|a|an|its|their|no|this|each|such) (?:(?!that|which)\w+ ){1,3}"
        r"(?:is|are|was|were|has|have|had|may|can|must|would|will|does|do)\b)",
        "it waits, for it may come late",
        "for topics, for the members and for clients",
    ),
    (r"\bat the (?:most|latest)\b", "after 3 s at the latest", "within 3 s"),
    (r"\bdone with\b", "it is done with the message", "it has processed the message"),
    (r"\b(?:come|comes|came|coming) again\b", "the message comes again", "the message is redelivered"),
    (
        r"\b(?:given up|(?:give|gives|giving|gave) up (?:a|an|the|its|their|some|one|it|queues?)\b"
        r"|(?:give|gives|given|giving|gave) (?:\w+ ){1,3}up\b)",
        "a queue is given up",
        "the client gives up after three tries",
    ),
    (
        r"\b(?:broker|server|client|member|consumer|producer|peer|node|request|answer|frame|header|event|it|they)s?"
        r" (?:says?|said)\b|\bsaid by\b",
        "the broker says that it is late",
        "the broker reports that it is late; the page says why",
    ),
)
"""Words of the project's own dialect, each with an example of it and of plain English."""

ALLOWED: dict[str, str] = {}
"""Parts of sentences that may stay although a pattern finds them, each with the reason."""


NAME_PATTERNS: tuple[tuple[str, str, str], ...] = (
    (r"(?:tell|tells|telling|tellers?|told)", "told_version", "notified_version"),
    (r"(?:hear|hears|heard)", "heard_at", "last_received_at"),
    (r"(?:owe|owes|owed)", "owed_since", "pending_since"),
    (r"(?:no|some)bodys?", "nobody_absent", "none_absent"),
    (r"who(?:ever|mever)", "whoever_waits", "waiting_member"),
    (r"(?:anew|meanwhile)", "begin_anew", "begin_again"),
    (r"(?:newcomers?|guests?|rivals?)", "newcomer", "new_connection"),
    (r"(?:made|created)_again", "topics_made_again", "topics_recreated"),
    (r"(?:whats_left|none_of_ours)", "whats_left", "remaining_queue"),
    (r"look_(?:again|by)", "look_again", "check_again"),
    (r"_?notes?_(?:what|gap|lost|ends|first|damaged|moved|jump|epoch|clock|number|join)\w*", "note_gap", "report_gap"),
    (r"_?take_(?:out|due|dirty|changes|line|member|queue|offsets?|number|commit)", "take_due", "remove_due"),
)
"""Words that are not in names of the code, each with a name that has it and a plain one; `test_names.py` applies them.

A pattern finds whole words of a name: `told` is in `told_version` and `_told`, not in `gatold`.
"""

PARTICIPLE = (
    r"(?:[a-z]+(?<!e)ed|held|kept|seen|begun|began|taken|took|known|shown|found|sent|gone|lost|made|given|left|bound|"
    r"written|broken|frozen|hidden|others|elsewhere)"
)
"""A bare participle, in lower case, is not the name of a public class or function: of what, or which act?

`Parked` may be a request or a state, and `located` may find something or return where it was found. `ParkedRequest` and
`locate_fields` say which.
"""

ALLOWED_PARTICIPLES: dict[str, str] = {
    "Failed": "a listener returns it: users know it by this name, `return Failed(...)`",
    "Bound": "a noun here, the bound of a clock's error",
    "joined": "the row of a set of replicas after this change, as `replica/sets.py` has them all",
    "started": "the same",
    "elected": "the same",
    "begun": "the same",
    "locked": "a context in which a directory is locked",
    "Secured": "a named tuple of the options that secure a server",
    "secured": "makes it",
    "Applied": "the callbacks after something was applied",
    "Greeted": "a replica that was greeted",
}
"""Names that stay although `PARTICIPLE` finds them, each with the reason."""

VAGUE = frozenset(
    [
        *("again", "asked", "at", "before", "begun", "ended", "found", "given", "gone", "has", "here", "known", "lost"),
        *("made", "most", "named", "noted", "of", "one", "own", "place", "said", "shown", "taken", "there", "wanted"),
        *("what", "who"),
    ]
)
"""Not the name of a parameter or local variable of shipped code: of what, in which unit, and is it one or several?

The name has its noun: not `found` but `row`, `match` or `offsets`; not `at` but `position` or `index`; not `before` but
`old_owner` or `n_before`; not `one` but `lease`; not `what` but `subject`.
"""

VAGUE_ROOMS = ("pipeline/spark/", "rocketmq/grpc/")
"""Rooms whose variables have such names still, and whose docstrings begin with a pronoun."""

ALLOWED_VAGUE: dict[str, str] = {
    "cli/group/dead_letters.py again": "the option --again",
    "cli/messages/message.py most": "the option --max",
}
"""Such names that stay, as `FILE NAME`, each with the reason."""

ALLOWED_NAMES: dict[str, str] = {
    "tell": "the method of msgpack's Unpacker, bound to a local name",
    "look_again": "a field of an answer on the wire",
    "newcomer": "a field of the registration of a broker",
}
"""Names that may stay although a pattern finds them, each with the reason."""
