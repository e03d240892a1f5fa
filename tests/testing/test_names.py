"""What `mita.testing` promises. Growing these lists is a decision, not an accident."""

import inspect

import pytest

from mita import testing
from mita.testing import Lab

TWINS = ["advance", "drain", "signal"]


def test_the_names() -> None:
    names = {
        name
        for name, value in vars(testing).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert names == {"EnqueuedJob", "FakeClock", "Lab", "lab"}


def test_the_methods_of_a_lab() -> None:
    others = {"assert_enqueued", "enqueued", "now", "override"}
    assert {name for name in dir(Lab) if not name.startswith("_")} == {
        *others,
        *TWINS,
        *(f"{name}_sync" for name in TWINS),
    }


@pytest.mark.parametrize("name", TWINS)
def test_an_async_method_has_a_twin_with_the_same_parameters(name: str) -> None:
    method, twin = getattr(Lab, name), getattr(Lab, f"{name}_sync")
    assert inspect.iscoroutinefunction(inspect.unwrap(method))
    assert not inspect.iscoroutinefunction(twin)
    assert inspect.signature(method) == inspect.signature(twin)
    assert "not async" in (twin.__doc__ or "")
