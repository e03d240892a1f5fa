"""Dramatiq on Redis: `dramatiq -p 1 -t 8`, prefetch 64, worker timeout 10 ms. A pipeline passes
results on. The callback of a group gets no results."""

# mypy: ignore-errors

import os
import sys

import dramatiq
from done import LINKS, URL, done, measure
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

broker = RedisBroker(url=URL)
broker.add_middleware(GroupCallbacks(RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="link", max_retries=0)
def link(x):
    return x + 1


@dramatiq.actor(actor_name="last", max_retries=0)
def last(x):
    done(right=x == LINKS - 1)


@dramatiq.actor(actor_name="total", max_retries=0)
def total():
    done()


def one_chain():
    pipeline([link.message(0), *[link.message() for _ in range(LINKS - 2)], last.message()]).run()


def one_group(count):
    members = group([link.message(n) for n in range(count)])
    members.add_completion_callback(total.message())
    members.run()


if __name__ == "__main__":
    what, count = sys.argv[1], int(sys.argv[2])
    if what == "work":
        os.environ.update(dramatiq_queue_prefetch="64", dramatiq_worker_timeout="10")
        command = [sys.executable, "-m", "dramatiq", "-p", "1", "-t", "8", "--log-file", os.devnull]
        os.execvp(sys.executable, [*command, "dramatiq_chains"])
    elif what == "chain":
        measure(lambda: [one_chain() for _ in range(count)], count)
    else:
        measure(lambda: one_group(count), 1)
