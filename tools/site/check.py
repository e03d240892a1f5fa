"""python -m tools.site.check build/site: read the built pages, and fail for a link that leads
nowhere, or for anything that a browser would fetch from another server."""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# by element: the attribute with the address of what the browser fetches to show the page
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The ids and links of a page, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.add(given[FETCHED[tag]])

    def has(self, fragment: str) -> bool:
        """Whether this is the id of a part of the page, or means its beginning."""
        return fragment == "__top" or unquote(fragment) in self.ids


def mistakes(site: Path) -> Iterator[str]:
    """Each mistake of the built site, as a sentence."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses begin at the root of the server
            continue
        where = path.relative_to(site)
        for address in sorted(page.fetched):
            if urlsplit(address).netloc:
                yield f"{where} fetches {address} from another server"
        for address in sorted(page.links | page.fetched):
            link = urlsplit(address)
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{where} links to {address}, which is not in the site"
            elif link.fragment and target in pages and not pages[target].has(link.fragment):
                yield f"{where} links to {address}: that page has no such heading"


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    found = list(mistakes(site))
    print("\n".join(found))
    if found:
        sys.exit(f"{len(found)} mistakes in {site}")
    print(f"{len(list(site.rglob('*.html')))} pages are in {sys.argv[1]}. Read them with:")
    print(f"  python3 -m http.server --directory {sys.argv[1]} 8800")


if __name__ == "__main__":
    main()
