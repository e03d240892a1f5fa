"""The checks of pages notice what is wrong."""

import pytest
from playwright.async_api import Page

from .browsing import FOCUS, check_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

# each fault, and the check that must notice it
FAULTS = {
    "one h1": "<h1>second</h1>",
    "heading level": "<h4>deep</h4>",
    "landmark name:": "<nav>menu</nav>",
    "landmark name twice": "<nav aria-label=here>a</nav><nav aria-label=here>b</nav>",
    "id twice": "<p id=twin>a</p><p id=twin>b</p>",
    "unknown id": "<p aria-labelledby=nobody>a</p>",
    "role": "<p role=wizard>a</p>",
    "tabindex": "<p tabindex=3>a</p>",
    "hidden control": "<p aria-hidden=true><a href=/x>a</a></p>",
    "name:": "<button></button>",
    "label": "<input placeholder=name>",
    "link to nowhere": "<a href='#'>a</a>",
    "picture": "<svg width=20 height=20></svg>",
    "table head": "<table><tr><td>a</td></tr></table>",
    "scope": "<table><tr><th>a</th></tr></table>",
    "list": "<ul><p>a</p></ul>",
    "time": "<time>now</time>",
    "contrast: text 4": "<p style='color: #777'>grey</p>",
    "contrast: text 2": "<p style='background: #fffc; color: #0006'>thin</p>",
    "contrast: placeholder": "<style>#pale::placeholder { color: #bbb }</style>"
    "<label>a <input id=pale placeholder=pale></label>",
    "contrast: border": "<label>a <input style='border: 1px solid #eee'></label>",
    "target": "<p><a href=/x style='font-size: 9px; display: inline-block'>x</a></p>",
    "sideways scroll": "<p style='width: 9000px'>wide</p>",
    "inline style": "<p style='margin: 0'>a</p>",
    "inline script": "<p onclick='x()'>a</p>",
}
GOOD = """<!doctype html><html lang=en><title>good</title>
<style>button:focus { outline: %s }</style>
<body><header><a href=/ style="display: inline-block; padding: 20px">home</a></header>
<main><h1>Good</h1><button style="min-height: 30px; min-width: 30px">%s</button>%s</main></body>"""


async def test_each_fault_is_noticed_and_a_good_page_has_none(page: Page) -> None:
    await page.set_content(GOOD % ("3px solid", "press", ""))
    assert await check_page(page, known=["inline style"]) == []
    missed = []
    for check, html in FAULTS.items():
        await page.set_content(GOOD % ("3px solid", "press", html))
        if not any(fault.startswith(check) for fault in await check_page(page)):
            missed.append(check)
    assert missed == []


async def test_a_focus_that_cannot_be_seen_is_noticed(page: Page) -> None:
    await page.set_content(GOOD % ("3px solid red", "press", ""))
    await page.keyboard.press("Tab")
    assert await page.evaluate(FOCUS) == []
    await page.set_content(GOOD % ("none", "press", ""))
    await page.keyboard.press("Tab")
    assert len(await page.evaluate(FOCUS)) == 1
