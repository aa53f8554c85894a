"""What `make site` adds to mkdocs: pages that stand outside `docs/`, and a look at what was built.

The pages are written for a code host, where a link from `docs/` may lead out of it. Here what such a link names is
copied beside the pages.
"""

from __future__ import annotations

import re
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages of the top level, and what they are called here."""
PUBLIC = ("", ".recorder", ".redact", ".control", ".envelope", ".backends", ".bridges.edri", ".testing")
FROM_DOCS = re.compile(r"(?<=\]\()\.\./(?P<path>[^)#\s]+)")
"""A link from a page in `docs/` to something outside of it."""
FROM_TOP_LEVEL = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)")
IN_A_TABLE = re.compile(r"(?<=^\|).*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?P<url>(?:https?:)?//[^\"'\s>]+)")


def place(path: str) -> str:
    """Where something of the repository is in the site."""
    return TOP_LEVEL.get(path, path.removeprefix("docs/"))


def moved(link: re.Match[str]) -> str:
    return place(link["path"])


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    linked: set[str] = set()
    for source, name in TOP_LEVEL.items():
        text = (ROOT / source).read_text()
        linked.update(link["path"] for link in FROM_TOP_LEVEL.finditer(text))
        files.append(File.generated(config, name, content=FROM_TOP_LEVEL.sub(moved, text)))
    for page in (ROOT / "docs").glob("*.md"):
        linked.update(link["path"] for link in FROM_DOCS.finditer(page.read_text()))
    for path in sorted(linked):
        if not path.startswith("docs/") and path not in TOP_LEVEL and (ROOT / path).is_file():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links that lead out of `docs/` lead to what was copied; reference pages stand one folder deeper already.

    A code host needs a bar in code escaped in a table, and takes the backslash away; Markdown in Python does neither.
    """
    if page.file.src_uri.startswith("reference/"):
        return markdown
    markdown = IN_A_TABLE.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
    return FROM_DOCS.sub(moved, markdown)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Fail when a built page loads something from elsewhere, or the reference lacks a public name."""
    site = Path(config.site_dir)
    faults = [
        f"{page.relative_to(site)} loads {found['url']}"
        for page in site.rglob("*.html")
        for found in LOADED.finditer(page.read_text())
    ]
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    described = {line.partition(" ")[0] for line in inventory.splitlines()}
    for module in (f"actionspan{name}" for name in PUBLIC):
        faults += [
            f"the reference lacks {module}.{name}"
            for name in import_module(module).__all__
            # A submodule of the same name hides a function from what reads the source.
            if described.isdisjoint({f"{module}.{name}", f"{module}.{name}.{name}"})
        ]
    if faults:
        raise PluginError("\n".join(faults))
