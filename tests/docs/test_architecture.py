"""What docs/ say of the code is there: files, functions and classes by their names, and links between pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ottla"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def walk(heading: str) -> list[tuple[str, str]]:
    """(file, name) for each name in the second column of a section's table; a file holds for the rows below it."""
    section = ARCHITECTURE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found, file = [], ""
    for row in re.findall(r"^\| .+ \|$", section, re.MULTILINE):
        where, names, *_ = (cell.strip() for cell in row[1:].split("|"))
        file = where.strip("`") or file
        found += [(file, name) for name in re.findall(r"`([\w.]+)`", names)]
    return found


@pytest.mark.parametrize("heading", ["One Produce", "One Fetch"])
def test_the_walk_through_the_code_names_what_is_there(heading: str) -> None:
    named = walk(heading)
    assert len(named) > 10
    for file, name in named:
        text = (SOURCE / file).read_text()
        for part in name.split("."):
            assert re.search(rf"\b{part}\b", text), f"{name} is not in {file}"


def test_the_files_that_are_named_exist() -> None:
    text = ARCHITECTURE.partition("## Adding a request")[0]  # which names one that is to be written
    for name in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text):
        assert any((base / name).exists() for base in (SOURCE, ROOT, SOURCE / "broker", ROOT / "src")), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles]
            assert heading in slugs, f"{page.name} links to {link}"
