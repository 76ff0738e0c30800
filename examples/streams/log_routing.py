"""Route log lines (A3 DP2): errors to a topic that somebody watches, the rest to one that nobody hurries with.

Single events, no state: expressions run without Python, and one pass over the topic serves both outputs.
"""

from ottla.streams import App

app = App("log-routing")

routed = app.stream("logs").split(errors="value like '% ERROR %'")
routed["errors"].to("logs-high-priority")
routed["default"].to("logs-low-priority")

if __name__ == "__main__":
    app.run()
