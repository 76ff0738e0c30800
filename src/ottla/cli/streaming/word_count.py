"""The application that `ottla demo` shows: how often has each word come? (A3 W6)"""

from __future__ import annotations

import re

from ottla.streams import App, Text

INPUT, OUTPUT = "wordcount-input", "wordcount-output"


def word_count(bootstrap: str) -> App:
    app = App("wordcount", bootstrap)
    (
        app.stream("wordcount-input", value=Text)
        .flat_map_values(lambda line: re.findall(r"\w+", line.lower()), value=Text)
        .map(lambda _, word: (word, word), key=Text, value=Text)
        .filter(lambda word: word != "the")
        .group_by_key()
        .count("CountStore")
        .map_values(str, value=Text)
        .to("wordcount-output")
    )
    return app
