"""One module per request. Each registers itself with `ottla.broker.dispatch`; importing this package imports them all."""

from ottla.broker.handlers import api_versions
