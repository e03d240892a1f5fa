"""Providers and middleware that are generators: how they begin and end. They yield once."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

from mita.errors import UsageError


def begin(generator: Generator[Any, Any, Any], label: str) -> Any:
    """Return what a generator yields first."""
    try:
        return next(generator)
    except StopIteration:
        raise _without_yield(label) from None


async def begin_async(generator: AsyncGenerator[Any, Any], label: str) -> Any:
    """Return what an async generator yields first."""
    try:
        return await anext(generator)
    except StopAsyncIteration:
        raise _without_yield(label) from None


def end(
    generator: Generator[Any, Any, Any], label: str, value: Any, error: BaseException | None
) -> BaseException | None:
    """Let a generator clean up. It is sent `value`, or `error` is raised at its `yield`. Returns
    the error that stands now: one that it caught and did not raise again stands, too."""
    try:
        if error is None:
            generator.send(value)
        else:
            generator.throw(error)
    except StopIteration:
        return error
    except BaseException as raised:  # noqa: BLE001 - user code may raise anything
        return _standing(error, raised)
    generator.close()
    return error or _second_yield(label)


async def end_async(
    generator: AsyncGenerator[Any, Any], label: str, value: Any, error: BaseException | None
) -> BaseException | None:
    """`end`, for an async generator."""
    try:
        if error is None:
            await generator.asend(value)
        else:
            await generator.athrow(error)
    except StopAsyncIteration:
        return error
    except BaseException as raised:  # noqa: BLE001 - as above
        return _standing(error, raised)
    await generator.aclose()
    return error or _second_yield(label)


def _standing(error: BaseException | None, raised: BaseException) -> BaseException:
    """Python replaces a StopIteration that leaves a generator by a RuntimeError."""
    replaced = isinstance(raised, RuntimeError) and raised.__cause__ is error
    return error if error is not None and replaced else raised


def _without_yield(label: str) -> UsageError:
    return UsageError(f"{label} ended without a yield: it must yield exactly once")


def _second_yield(label: str) -> UsageError:
    return UsageError(f"{label} yields twice: it must yield exactly once, and clean up after it")
