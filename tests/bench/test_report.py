"""Result, table, page, chart and comparison, from made-up measurements."""

import xml.etree.ElementTree as ElementTree

import pytest

from bench import chart, machine, report
from bench.__main__ import every_workload, options
from bench.kafka import Kafka
from bench.ottla import Ottla
from bench.rounds import Measured
from bench.streams.workloads import streams
from bench.workloads import LOADED, Figure, Start

FAST = Figure("produce-1k-1p.rate", "throughput", "produce 1 KiB", "MB/s", "higher")
QUICK = Figure("start.seconds", "footprint", "start", "s", "lower")
SLOW = Figure("consume-100b.rate", "throughput", "consume <100 B>", "k msg/s", "higher")
ABOUT = {
    "subject": "brokers",
    "taken": "2026-01-02",
    "repeats": 3,
    "full": True,
    "machine": {"processor": "P", "cores": "2", "memory": "4 GiB", "kernel": "Linux 6", "system": "Debian"},
    "systems": {"ottla": {"label": "ottla", "version": "1"}, "kafka": {"label": "Apache Kafka", "version": "4"}},
}


def result(values: dict[Figure, tuple[list[float], list[float]]], tmp_path) -> report.Result:
    measured = Measured()
    for figure, (ours, theirs) in values.items():
        for system, series in ((Ottla(tmp_path), ours), (Kafka(tmp_path), theirs)):
            for value in series:
                measured.add([figure], system, {figure.key: value})
    return report.build(measured, **ABOUT)


@pytest.fixture
def sample(tmp_path) -> report.Result:
    series = {QUICK: ([0.2, 0.1, 0.15], [3.0, 2.0, 2.5]), FAST: ([900, 1500, 1200], [400, 600, 500])}
    return result({**series, SLOW: ([4000], [5000])}, tmp_path)


def figure(result: report.Result, wanted: Figure) -> dict:
    (row,) = (row for row in result["figures"] if row["key"] == wanted.key)
    return row


def test_best_and_median_follow_the_direction_that_is_good(sample):
    assert figure(sample, FAST)["systems"]["ottla"]["median"] == 1200
    assert figure(sample, FAST)["systems"]["ottla"]["best"] == 1500
    assert figure(sample, QUICK)["systems"]["ottla"]["median"] == 0.15
    assert figure(sample, QUICK)["systems"]["ottla"]["best"] == 0.1


def test_a_ratio_above_one_means_that_ottla_is_better_whichever_direction_is_good(sample):
    assert figure(sample, FAST)["ratio"] == {"median": pytest.approx(2.4), "best": pytest.approx(2.5)}
    assert figure(sample, QUICK)["ratio"] == {"median": pytest.approx(2.5 / 0.15), "best": pytest.approx(20)}
    assert figure(sample, SLOW)["ratio"]["median"] == pytest.approx(0.8)


def test_a_figure_of_one_system_alone_has_no_ratio_and_no_bar(tmp_path):
    alone = result({LOADED: ([50.0], [])}, tmp_path)
    assert "ratio" not in figure(alone, LOADED)
    assert "-" in report.table(alone)
    assert "<rect" not in chart.draw(alone)


def test_a_zero_gives_no_ratio(tmp_path):
    row = figure(result({QUICK: ([0.0], [1.0])}, tmp_path), QUICK)
    assert row["ratio"]["median"] is None


def test_the_table_shows_median_best_and_both_ratios_under_the_group_titles(sample):
    lines = report.table(sample).splitlines()
    (line,) = (line for line in lines if line.startswith("produce 1 KiB"))
    assert line.split() == ["produce", "1", "KiB", "MB/s", "1,200", "(1,500)", "500", "(600)", "2.40x", "2.50x"]
    assert lines.index("Throughput") < lines.index("Start and memory")


def test_failures_are_told_in_table_and_page(sample):
    sample["failures"].append("consume-1k on kafka: stuck\nlong story")
    assert "FAILED: consume-1k on kafka: stuck" in report.table(sample)
    assert "- consume-1k on kafka: stuck\n" in report.markdown(sample)


def test_the_page_has_every_figure_the_machine_and_the_chart(sample):
    page = report.markdown(sample)
    for row in sample["figures"]:
        assert f"| {row['label']} | {row['unit']} |" in page
    assert "- P, 2 cores, 4 GiB, Linux 6, Debian\n" in page
    assert "(bench.svg)" in page


def test_the_chart_is_well_formed_and_puts_losses_left_of_the_line(sample):
    picture = ElementTree.fromstring(chart.draw(sample))
    space = "{http://www.w3.org/2000/svg}"
    bars = [(bar.get("class"), float(bar.get("x")), float(bar.get("width"))) for bar in picture.iter(f"{space}rect")]
    (one,) = (float(line.get("x1")) for line in picture.iter(f"{space}line") if line.get("class") == "one")
    assert [style for style, _, _ in bars] == ["ahead", "behind", "ahead"]
    assert [(round(x, 1) == one, round(x + width, 1) == one) for _, x, width in bars] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert "consume <100 B>" in [text.text for text in picture.iter(f"{space}text")]


def test_every_bar_of_the_chart_is_a_figure_that_a_full_run_measures():
    measured = {figure.key for workload in [*every_workload(), *streams()] for figure in workload.figures()}
    measured |= {figure.key for figure in Start.figures} | {LOADED.key}
    assert set(chart.SHOWN) <= measured


def test_a_comparison_says_how_each_system_moved(sample, tmp_path):
    earlier = result({FAST: ([600], [500]), QUICK: ([0.3], [2.5])}, tmp_path)
    text = report.comparison(sample, earlier)
    assert "produce 1 KiB, MB/s: ottla 600 -> 1,200 (2.00x), kafka 500 -> 500 (1.00x)" in text
    assert "start, s: ottla 0.30 -> 0.15 (2.00x)" in text
    assert "consume" not in text


def test_the_machine_is_described_without_names_or_paths():
    described = machine.describe()
    assert set(described) == {"processor", "cores", "memory", "kernel", "system"}
    assert not [value for value in described.values() if "/proc" in value or not value]


def test_unknown_workloads_are_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        options(["--workloads", "produce-2k"])
    assert (
        "no workload produce-2k; there are: standard, groups, transactions, restarts, streams, start, produce-100b-1p"
        in capsys.readouterr().err
    )


def test_a_family_stands_for_its_workloads():
    chosen = options(["--workloads", "transactions,start"])
    assert chosen.names == ["transactions-1", "transactions-100", "read-committed", "start"]
