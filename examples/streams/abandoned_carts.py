"""Carts that were left behind: who has put something into the cart and then does nothing for half an hour is told of.

    ottla topics --create --topic cart-events
    ottla streams run examples/streams/abandoned_carts.py

How a cart changes is a rule of its own, and that nothing happens is no record: no aggregate says that. A processor
does: a class that sees the records of a key in turn, with state and timers of its own for each key (A3 W1). State and
timers are in the checkpoint, so that a restart forgets nothing.

The key of an event is the customer. Time is that of the records: a timer is due when some customer's event is later.
"""

from collections.abc import Iterator
from typing import Any

from ottla.streams import App, Context, Json, Long, Processor, Record, Text

PATIENCE_MS = 30 * 60_000

app = App("carts", bootstrap="localhost:9092")


class Cart(Processor):
    def init(self, context: Context) -> None:
        self.items = context.map_state("items", Text, Long)  # how many of each
        self.reminder = context.value_state("reminder", Long)  # when it is due

    def process(self, record: Record) -> Iterator[tuple[str, Any]]:
        action, item = record.value["action"], record.value["item"]
        if action == "add":
            self.items[item] = self.items.get(item, 0) + 1
        elif action == "remove":
            self.items.remove(item)
        elif action == "pay":
            yield record.key, {"event": "paid", "items": dict(self.items.items())}
            self.items.clear()
        self.wait_from(record.timestamp)

    def wait_from(self, moment: int) -> None:
        """Only the newest reminder counts, and an empty cart needs none."""
        if due := self.reminder.get():
            self.context.delete_timer(due)
            self.reminder.clear()
        if self.items:
            self.context.register_timer(moment + PATIENCE_MS)
            self.reminder.set(moment + PATIENCE_MS)

    def on_timer(self, time: int) -> Iterator[tuple[str, Any]]:
        yield self.context.key, {"event": "left behind", "items": dict(self.items.items())}
        self.items.clear()
        self.reminder.clear()


events = app.stream("cart-events", value=Json("action string, item string"))
events.process(Cart, value=Json("event string, items map<string, bigint>"), time="event", name="cart").to("carts")

if __name__ == "__main__":
    app.run()
