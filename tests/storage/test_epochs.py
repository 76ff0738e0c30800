"""Leader epochs answer where an epoch ended (KIP-101)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs(tmp_path / "leader-epoch-checkpoint")
    epochs.assign(2, 10)
    epochs.assign(5, 30)
    epochs.assign(7, 60)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, 100)),
        (5, (5, 60)),
        (6, (5, 60)),
        (2, (2, 30)),
        (4, (2, 30)),
        (1, (1, 10)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset(asked, 100) == answer


def test_a_single_epoch_answers_for_older_ones(tmp_path: Path) -> None:
    epochs = LeaderEpochs(tmp_path / "e")
    epochs.assign(5, 100)
    assert epochs.end_offset(3, 200) == (3, 100)


def test_an_epoch_that_wrote_nothing_is_forgotten_and_an_older_one_is_not_taken(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 60)
    epochs.assign(8, 70)
    assert list(epochs) == [(2, 10), (5, 30), (9, 60)]


def test_epochs_follow_the_log_when_it_is_cut_at_either_end(epochs: LeaderEpochs) -> None:
    epochs.truncate_end(60)
    assert list(epochs) == [(2, 10), (5, 30)]
    assert epochs.latest == 5
    epochs.truncate_start(20)
    assert list(epochs) == [(2, 20), (5, 30)]


def test_epochs_survive_on_disk_and_an_unreadable_file_counts_as_none(epochs: LeaderEpochs, tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n3\n2 10\n5 30\n7 60\n"
    again = LeaderEpochs(path)
    again.open()
    assert list(again) == list(epochs)
    path.write_text("0\n3\n2 10\n")
    again.open()
    assert again.latest == -1
