"""The ten stocks that gained most in a day, from its first trade to its last: in two phases.

    ottla topics --create --topic trades --partitions 4
    ottla streams run examples/streams/top_gainers.py
    ottla console-consumer --topic top-gainers --from-beginning --property print.key=true

First phase: the gain of each symbol, with state of its own. All trades of a symbol are in one partition, so many tasks
work side by side. A day has a result when it is over, once, so that a symbol has one gain per day.
Second phase: all gains go through a topic with one partition, so that a single task sees them, and that keeps ten per
day. They are few: one per symbol and day. (A3 DP8)

The key of a trade is its symbol. Days are those of UTC, and over when a trade comes that is a minute into the next.
"""

from ottla.streams import App, Json, top_n, tumbling

app = App("top-gainers", bootstrap="localhost:9092")

opening = "min_by(value.price, struct(timestamp, offset))"  # of trades in the same millisecond the first
closing = "max_by(value.price, struct(timestamp, offset))"
percent = "round(try_divide(100 * (value.closing - value.opening), value.opening), 2)"

gains = (
    app.stream("trades", value=Json("price double"))
    .group_by_key()
    .windowed_by(tumbling(hours=24, grace=60))
    .final()
    .aggregate(opening=opening, closing=closing, name="gain-of-the-day")
    .to_stream()
    .map(("date_format(key.start, 'yyyy-MM-dd')", f"struct(key.key as symbol, {percent} as percent)"))
    .filter("value.percent > 0")
    .repartition(1, name="gains")
)
gains.group_by_key().aggregate(top_n("value", by="value.percent", n=10), store="top-gainers").to("top-gainers")

if __name__ == "__main__":
    app.run()
