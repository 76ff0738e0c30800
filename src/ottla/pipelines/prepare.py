"""`python -m ottla.pipelines.prepare [--archive]`: what the first session would do, done ahead and with progress.

It fetches Spark's Kafka connector and compiles our classes; with --archive it also archives Spark's classes, which
pays from the eighth start of a session on.
"""

from __future__ import annotations

import sys

from ottla.pipelines import archive, jars
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import java, spark_home
from ottla.pipelines.waiting import say


def main(words: list[str]) -> int:
    try:
        java()
        spark_home()
        jars.all_jars()
    except PipelineError as error:
        say(str(error))
        return 1
    if "--archive" in words:
        try:
            archive.make()
        except PipelineError as error:
            say(f"sessions will start more slowly: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
