"""Alerts on payments (A3 DP2, UC3): one of more than 10,000 dollars, or a card that has paid that much within an hour.

The first rule looks at single events; the second keeps a sum per card and hour. Both write to one topic.
"""

from ottla.streams import App, Json, tumbling

app = App("fraud-alert")

PAYMENT = Json("card string, dollars double")
LIMIT = 10_000

payments = app.stream("payments", value=PAYMENT).select_key("value.card")

large = payments.filter(f"value.dollars > {LIMIT}")
large.map_values("concat('a payment of ', cast(value.dollars as bigint), ' dollars')").to("alerts", name="large")

hourly = payments.group_by_key().windowed_by(tumbling(hours=1)).aggregate("sum(value.dollars)", name="hourly")
over = hourly.to_stream().filter(f"value > {LIMIT}")
over.map(("key.key", "concat(cast(value as bigint), ' dollars within an hour')")).to("alerts", name="sums")

if __name__ == "__main__":
    app.run()
