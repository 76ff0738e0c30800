"""Count words (A3 W1-W8): lines come in, and the count of each word goes out whenever it changes.

With a broker on localhost:9092 (make up):

    ottla topics --create --topic wordcount-input
    ottla streams run examples/streams/word_count.py
    echo 'Hello Kafka, hello Spark' | ottla console-producer --topic wordcount-input
    ottla console-consumer --topic wordcount-output --from-beginning --property print.key=true
"""

import re

from ottla.streams import App, Text

app = App("wordcount", bootstrap="localhost:9092")


def words(line: str) -> list[str]:
    return [word for word in re.split(r"\W+", line.lower()) if word]


counts = (
    app.stream("wordcount-input", value=Text)
    .flat_map_values(words, value=Text)
    .map(lambda _, word: (word, word), key=Text, value=Text)
    .filter(lambda word: word != "the")
    .group_by_key()
    .count("CountStore")
)
counts.map_values(str, value=Text).to("wordcount-output")

if __name__ == "__main__":
    app.run()
