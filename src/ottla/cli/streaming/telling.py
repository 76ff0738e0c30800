"""Errors of pipelines as the command line tells them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.cli.common.invocation import Failure


@contextmanager
def told_plainly() -> Iterator[None]:
    """What the user of a pipeline can mend becomes the line that says how; so does a missing Spark."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs what it raises, as Ctrl-C
    try:
        yield
    except Exception as error:
        errors = sys.modules.get("ottla.pipelines.errors")  # not there as long as nothing of pipelines is
        if errors is None or not isinstance(error, errors.PipelineError):
            raise
        raise Failure(str(error)) from None
