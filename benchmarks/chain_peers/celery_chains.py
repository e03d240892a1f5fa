"""Celery on Redis, as broker and result backend (a chord needs one): `celery worker -P threads
-c 10`, no gossip, mingle, heartbeat and events, prefetch 64. A chord hands the results to its
callback."""

# mypy: ignore-errors

import os
import sys

from celery import Celery, chain, chord
from done import LINKS, URL, done, measure

app = Celery("celery_chains", broker=URL, backend=URL)
app.conf.update(
    worker_disable_rate_limits=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
    result_expires=600,
)


@app.task(name="link")
def link(x):
    return x + 1


@app.task(name="last", ignore_result=True)
def last(x):
    done(right=x == LINKS - 1)


@app.task(name="total", ignore_result=True)
def total(numbers, wanted):
    done(right=sum(numbers) == wanted)


def one_chain():
    chain(link.s(0), *[link.s() for _ in range(LINKS - 2)], last.s()).apply_async()


if __name__ == "__main__":
    what, count = sys.argv[1], int(sys.argv[2])
    if what == "work":
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
        pool = ["-P", "threads", "-c", "10"]
        os.execvp(
            sys.executable,
            [sys.executable, "-m", "celery", "-A", "celery_chains", "worker", *pool, *quiet],
        )
    elif what == "chain":
        measure(lambda: [one_chain() for _ in range(count)], count)
    else:
        wanted = sum(range(count)) + count
        measure(lambda: chord([link.s(n) for n in range(count)])(total.s(wanted)), 1)
