from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.maven_mirror import MavenMirror


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[MavenMirror]:
    """A mirror of Maven Central with the connector's jars, which is asked instead of it."""
    with MavenMirror() as mirror:
        monkeypatch.setenv("OTTLA_MAVEN_CENTRAL", mirror.address)
        yield mirror
