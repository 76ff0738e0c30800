"""Sensor readings that come out of order (A3 DP13-DP16): a factory's network was down, and its data come hours later.

Event time is a field of the reading. Windows stay open for three hours: a late reading changes the average of its own
window, and the new value goes to the result topic under the same key, so that it replaces the old one there (the topic
is compacted). What is later than that is put aside, to be looked at by somebody.
"""

from ottla.streams import App, DeadLetters, Json, tumbling

app = App("sensors", on_late=DeadLetters("sensor_readings_too_late"))

READING = Json("at timestamp, celsius double")

readings = app.stream("sensor_readings", value=READING, timestamp="value.at")
averages = (
    readings.group_by_key()
    .windowed_by(tumbling(minutes=5, grace=3 * 3600))
    .aggregate(average="avg(value.celsius)", readings="count(*)", store="Averages")
)
averages.to("sensor_averages")

if __name__ == "__main__":
    app.run()
