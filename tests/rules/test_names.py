"""Names are checked at the door."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.errors import UsageError
from mita.rules.names import (
    MOST_KEY_CHARACTERS,
    check_key,
    check_name,
    check_namespace,
    check_template,
    fill,
)


@pytest.mark.parametrize("name", ["a", "mail", "0", "mail.send", "billing:eu-west_1", "A" * 128])
def test_a_plain_name_is_fine(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "-a", ".a", "a b", "a/b", "a*", "a>", "a\n", "ä", "a" * 129, "{a}", "a\0", "a\r\n"],
)
def test_any_other_name_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=r"queue .* is not a usable name"):
        check_name("queue", name)
    with pytest.raises(UsageError, match="task"):
        check_name("task", name)


@given(name=st.text(max_size=140))
def test_what_passes_is_safe_in_keys_subjects_and_urls(name: str) -> None:
    try:
        check_name("queue", name)
    except UsageError:
        return
    assert name.isascii()
    assert not set(name) & set(" */>{}'\"\\\r\n\t%?#&=;,")


@pytest.mark.parametrize("name", [None, 7, b"mail"])
def test_a_name_is_text(name: object) -> None:
    with pytest.raises(UsageError):
        check_name("queue", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["mita", "shop_2", "a" * 40])
def test_a_namespace_is_small_letters(name: str) -> None:
    assert check_namespace(name) == name


@pytest.mark.parametrize(
    "name", ["", "2shop", "Shop", "shop-eu", "a" * 41, "shop;", "_shop", "shop\n"]
)
def test_any_other_namespace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="namespace"):
        check_namespace(name)


@pytest.mark.parametrize("key", ["a", "account:42", "Zoë's * {x} 東京", "k" * MOST_KEY_CHARACTERS])
def test_a_key_is_any_printable_text(key: str) -> None:
    assert check_key("resource", key) == key


@pytest.mark.parametrize("key", ["", "a\nb", "a\0", "\x1b[0m", "k" * (MOST_KEY_CHARACTERS + 1)])
def test_any_other_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="resource key"):
        check_key("resource", key)


def test_a_template_names_only_parameters() -> None:
    check_template(
        "resource", "account:{account_id}:{order.id}:{lines[0]}", ("account_id", "order", "lines")
    )
    check_template("resource", "fixed", ())
    with pytest.raises(
        UsageError, match=r"'acount', which is not a parameter of the task \(account, cents\)"
    ):
        check_template("resource", "account:{acount}", ("account", "cents"))
    for broken in ("account:{account", "}{", "{}", "{0}"):
        with pytest.raises(UsageError):
            check_template("resource", broken, ("account",))


def test_a_template_is_filled_from_the_arguments() -> None:
    assert fill("resource", "account:{id}", {"id": 42}) == "account:42"
    assert fill("resource", "fixed", {}) == "fixed"
    assert fill("resource", "{{x}}", {}) == "{x}"


@pytest.mark.parametrize(
    ("template", "arguments"),
    [("{id}", {}), ("{id.x}", {"id": 1}), ("{id:d}", {"id": "x"}), ("{id}", {"id": ""})],
)
def test_arguments_that_do_not_fit_are_refused(template: str, arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="resource"):
        fill("resource", template, arguments)
