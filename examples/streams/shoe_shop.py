"""A shoe shop, as a stream and as tables: what happened, and what is.

    ottla topics --create --topic shop
    ottla streams run examples/streams/shoe_shop.py
    ottla console-producer --topic shop <<'EVENTS'
    {"event": "shipment", "shoes": ["red", "blue", "green"]}
    {"event": "sold", "shoes": ["blue"], "dollars": 100}
    {"event": "sold", "shoes": ["red"], "dollars": 80}
    {"event": "returned", "shoes": ["blue"], "dollars": -100, "reason": "too small"}
    {"event": "sold", "shoes": ["green"], "dollars": 90}
    EVENTS

Tables say how things stand: the inventory has a pair of blue shoes, and the till 170 dollars. How it came to that they
do not say. The stream does: how busy the shop was (5 events that day), and why shoes came back. Each table is made of
the stream by replaying it; the other way round, the changes of a table are a stream again: the topic `inventory`.

The events are the text's own. Its figure has a pair of yellow shoes left, which never came; the prices are ours.
(A3 K10-K13, D11)
"""

from ottla.streams import App, Json, Text

app = App("shoe-shop", bootstrap="localhost:9092")
events = app.stream("shop", value=Json("event string, shoes array<string>, dollars int, reason string"))

# Tables: how things stand after all events. The key of the cash is the same for every event: there is one till.
pairs = "transform(value.shoes, shoe -> struct(shoe as key, if(value.event = 'sold', -1, 1) as value))"
events.flat_map(pairs).group_by_key().aggregate("sum(value)", store="inventory").to("inventory", value=Text)
events.group_by("'till'").aggregate("coalesce(sum(value.dollars), 0)", store="cash").to("cash", value=Text)

# The stream: what the tables have forgotten.
events.group_by("date_format(timestamp, 'yyyy-MM-dd')").count("events-per-day").to("events-per-day", value=Text)
events.filter("value.event = 'returned'").map(("value.shoes[0]", "value.reason")).to("reasons")

if __name__ == "__main__":
    app.run()
