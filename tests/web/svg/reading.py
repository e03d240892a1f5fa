"""Reads pictures as a browser does, and checks what holds for all of them."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator

NASTY = "<script>alert(1)</script>\"' onload=alert(2) &amp; \x1b[31m\u202e \x00"
_ATTRIBUTES_WITH_SCRIPT = ("style", "onload", "onclick", "onmouseover")


def parsed(markup: str) -> ET.Element:
    """The markup as a tree. It is well-formed XML, whatever the texts in it are."""
    tree = ET.fromstring(f"<page>{markup}</page>")
    for one in tree.iter():
        assert one.tag not in ("script", "style", "foreignObject"), markup
        assert not [name for name in one.attrib if name in _ATTRIBUTES_WITH_SCRIPT], markup
    return tree


def picture(markup: str, css: str) -> ET.Element:
    """The picture with this class. It says in words what it shows."""
    [found] = [one for one in parsed(markup).iter("svg") if css in one.get("class", "").split()]
    assert found.get("role") in ("img", "group")
    assert words(found)
    return found


def words(one: ET.Element) -> str:
    """The title of an element."""
    return one.findtext("title") or ""


def with_class(tree: ET.Element, css: str) -> Iterator[ET.Element]:
    return (one for one in tree.iter() if css in one.get("class", "").split())


def share(one: ET.Element, name: str) -> float:
    """An attribute that is a part of the picture's width, from 0 to 1."""
    return float(one.attrib[name].removesuffix("%")) / 100
