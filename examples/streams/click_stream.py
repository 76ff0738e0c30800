"""Enrich clicks: who clicked, by the table of profiles, and what they had searched for, by the stream of searches.

    for topic in page.views searches user.profiles; do ottla topics --create --topic $topic; done
    ottla streams run examples/streams/click_stream.py
    ottla console-consumer --topic user.activity --from-beginning

Keys are the ids of users. Two joins follow each other:

  - with a table: a view meets the profile of its user as it is then. A user without a profile stays, with nothing
    known about them: their clicks are worth something, too.
  - with a stream, in a window: a view meets each search of its user at most a second away, before or after. One that
    meets none comes out alone, when the second and the grace are over: 2 s later, in the time of the records.

For searches before the click only, the window is within(before=1, after=0, grace=1). (A3 CE1-CE8, D13, D14)
"""

from typing import Any

from ottla.streams import App, Int, Json, within

Fields = dict[str, Any]
Activity = Json("user int, name string, zipcode string, interests array<string>, search string, page string")

app = App("clicks", bootstrap="localhost:9092", key=Int)
views = app.stream("page.views", value=Json("user int, page string"))
searches = app.stream("searches", value=Json("user int, terms string"))
profiles = app.table(
    "user.profiles", value=Json("name string, zipcode string, interests array<string>"), store="profile-store"
)


def with_profile(view: Fields, profile: Fields | None) -> Fields:
    return {**view, **(profile or {})}


def with_search(activity: Fields, search: Fields | None) -> Fields:
    return {**activity, "search": search["terms"]} if search else activity


(
    views.left_join(profiles, with_profile, value=Activity)
    .left_join(searches, with_search, within=within(seconds=1, grace=1), value=Activity)
    .to("user.activity")
)

if __name__ == "__main__":
    app.run()
