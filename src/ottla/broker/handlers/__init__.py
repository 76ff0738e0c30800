"""One module per request, each registering itself with `ottla.broker.dispatch`. Importing this imports them all."""

from ottla.broker.handlers import (  # noqa: F401
    api_versions,
    fetch,
    produce,
)
