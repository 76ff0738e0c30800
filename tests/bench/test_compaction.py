"""The bench of compaction, small: the figures are there, and memory does not grow with the log."""

import pytest

from bench.compaction import main


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_it_measures(codec: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = main(["--records", "2000", "--keys", "500", "--codec", codec])
    assert done.records_read == 2000
    assert done.records_kept == done.keys <= 500
    assert "MB/s" in capsys.readouterr().out


def test_memory_is_bounded_by_the_number_of_keys() -> None:
    done = main(["--records", "100000", "--keys", "100000"])
    assert done.bytes_read > 100_000_000
    assert done.peak_memory < 60_000_000
