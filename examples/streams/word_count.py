"""Count words: lines come in, and the count of each word goes out whenever it changes.

    ottla topics --create --topic wordcount-input
    ottla streams run examples/streams/word_count.py
    echo 'Hello Kafka, hello Spark' | ottla console-producer --topic wordcount-input
    ottla console-consumer --topic wordcount-output --from-beginning --property print.key=true

Words are written small; "the" does not count. A line that begins with a comma has no empty word before it: splitting it
would give one, and it would be counted, so empty words are left out. Letters are those of all languages.
(A3 W6, D21)
"""

import re

from ottla.streams import App, Text

app = App("wordcount", bootstrap="localhost:9092", key=Text, value=Text)


def words(line: str) -> list[str]:
    return [word for word in re.split(r"\W+", line.lower()) if word]


(
    app.stream("wordcount-input")
    .flat_map_values(words, value=Text)
    .map(lambda _, word: (word, word), key=Text, value=Text)
    .filter(lambda word: word != "the")
    .group_by_key()
    .count("CountStore")
    .map_values(str, value=Text)
    .to("wordcount-output")
)

if __name__ == "__main__":
    app.run()
