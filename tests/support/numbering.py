"""Python state of drivers and executors that are killed (numbering_steps.py): as Copying, with other results."""

from __future__ import annotations

from support import numbering_model
from support.copying import Copying


class Numbering(Copying):
    work = "numbering"
    more = {
        "spark.sql.shuffle.partitions": str(numbering_model.PARTITIONS),
        # state is also gone on with from snapshots, which otherwise come after minutes
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
    }

    @property
    def tasks(self) -> set[int]:
        return set(numbering_model.WITH_RECORDS)

    def faults(self) -> list[str]:
        return numbering_model.faults(self.made(), self.fed)

    def is_complete(self) -> bool:
        wanted = numbering_model.counts(self.fed)
        return self.committed() >= wanted.total() and numbering_model.counted(self.made()) >= wanted

    def made(self) -> list[tuple[bytes, bytes]]:
        return [(record.key or b"", record.value or b"") for record in self.topics.read(self.output)]

    def finish(self) -> None:
        """Timers by the clock ring only while a query goes on, and after a start when the first records have come."""
        driver = self.start(spare=False)
        self.feed()
        self.until(lambda: self.is_complete() and self.is_idle())
        self.kill(driver)
