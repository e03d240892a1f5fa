"""Mita: one worker process, concurrency 100. Results are passed on, and the callback of a group
gets all of them."""

# mypy: ignore-errors

import asyncio
import sys

from done import LINKS, URL, done, measure

from mita import Mita

app = Mita(URL)


@app.task
async def link(x: int) -> int:
    return x + 1


@app.task
async def last(x: int) -> None:
    done(right=x == LINKS - 1)


@app.task
async def total(numbers: list[int], wanted: int) -> None:
    done(right=sum(numbers) == wanted)


async def chains(count: int) -> None:
    async with app:
        for _ in range(count):
            links = [link.call] * (LINKS - 2)
            await app.chain(link.call(0), *links, last.call).enqueue()


async def one_group(count: int) -> None:
    async with app:
        flow = app.flow("group")
        members = [flow.add(link.call(n)) for n in range(count)]
        flow.add(total.call(flow.results(members), sum(range(count)) + count))
        await flow.enqueue()


if __name__ == "__main__":
    what, count = sys.argv[1], int(sys.argv[2])
    if what == "work":
        app.worker(concurrency=100).run_sync()
    elif what == "chain":
        measure(lambda: asyncio.run(chains(count)), count)
    else:
        measure(lambda: asyncio.run(one_group(count)), 1)
