"""Statistics of a stock exchange: lowest ask, number of trades and average ask of the last 5 seconds, every second.

    ottla topics --create --topic stocks
    ottla streams run examples/streams/stock_statistics.py
    echo 'IBM|{"ask": 167.19, "size": 100}' |
        ottla console-producer --topic stocks --property parse.key=true --property 'key.separator=|'
    ottla console-consumer --topic stockstats-output --from-beginning --property print.key=true

The key of a trade is its ticker, its time that of the record. A trade is in five windows: those that begin within the 5
seconds up to it, at full seconds. Each window of a ticker has a result, which changes with each batch of trades; its
key says both. Everything is an expression that Spark runs, no Python is called per trade. (A3 SM1-SM8)
"""

from ottla.streams import App, Json, hopping

app = App("stockstat", bootstrap="localhost:9092")

trades = app.stream("stocks", value=Json("ask double, size int"))
statistics = (
    trades.group_by_key()
    .windowed_by(hopping(seconds=5, every=1, grace=10))
    .aggregate(low="min(value.ask)", trades="count(*)", average="avg(value.ask)", store="trade-stats-store")
)

statistics.to_stream().select_key("struct(key.key as ticker, key.start as start)").to("stockstats-output")

if __name__ == "__main__":
    app.run()
