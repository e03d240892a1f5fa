"""A polite crawler: each page once a day, two requests at a time and ten per second for each host,
and the hosts take turns. `mita worker crawler:app` crawls; `python crawler.py URL` begins."""

import re
import sys
import urllib.error
import urllib.request
from urllib.parse import urldefrag, urljoin, urlsplit

from mita import Key, Mita, Rate, Unavailable

app = Mita()  # its jobs are where $MITA_URL says: redis://…, nats://…


@app.task(
    unique="{url}",
    unique_for=86_400,
    resource=Key("host:{host}", limit=2),
    rate=Rate(10, per=1, key="host:{host}", burst=2),
    fair="{host}",
    timeout=30,
)
def crawl(url: str, host: str) -> str:
    """Read a page and enqueue the pages of this host that it links to. Returns its title."""
    html = read(url)
    links = {urldefrag(urljoin(url, link)).url for link in re.findall(r'href="([^"]+)"', html)}
    here = [link for link in links if urlsplit(link).netloc == host]
    app.enqueue_many_sync([crawl.call(link, host) for link in here])
    return title_of(html)


def read(url: str) -> str:
    """The text of a page. A host that is busy says for how long to leave it alone."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return str(answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            raise Unavailable(after=float(error.headers.get("Retry-After", 60))) from error
        raise


def title_of(html: str) -> str:
    """The title of a page."""
    found = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
    return found[1].strip() if found else "without a title"


if __name__ == "__main__":
    for start in sys.argv[1:]:
        crawl.enqueue_sync(start, urlsplit(start).netloc)
