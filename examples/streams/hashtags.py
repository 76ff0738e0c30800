"""Hashtags per minute, and the trends of each minute (B STR-03, STR-04).

The counts change while a minute goes on, and the newest is always in hashtag_counts. The trends are made in a second
step of the final counts: all hashtags of a minute come together under the minute's start, and the three most used of
them are the trends.
"""

from ottla.streams import App, Json, Text, top_n, tumbling

app = App("hashtags")

TWEET = Json("user string, text string")

tags = app.stream("twitter_tweets", value=TWEET).flat_map_values("regexp_extract_all(lower(value.text), '#(\\\\w+)')")
minutes = tags.group_by("value", key=Text).windowed_by(tumbling(minutes=1, grace=10))

minutes.count("HashtagCounts").to("hashtag_counts")

counted = minutes.final().count(name="minute").to_stream()
named = counted.map(("date_format(key.start, 'yyyy-MM-dd HH:mm')", "struct(key.key as tag, value as count)"))
trends = named.group_by_key().aggregate(top_n("value.tag", by="value.count", n=3), name="trends")
trends.to("hashtag_trends")

if __name__ == "__main__":
    app.run()
