"""Keep the tweets that people care about (B STR-02): more than 10 likes or more than 10 replies."""

from ottla.streams import App, Json

app = App("tweets-filter")

TWEET = Json("user string, text string, likes bigint, replies bigint")

tweets = app.stream("twitter_tweets", value=TWEET)
tweets.filter("value.likes > 10 or value.replies > 10").to("important_tweets")

if __name__ == "__main__":
    app.run()
