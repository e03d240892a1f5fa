"""RQ on Redis: SimpleWorker, which runs jobs in its own process. `depends_on` passes no results, so
each link ignores them."""

# mypy: ignore-errors

import sys

from done import LINKS, URL, done, measure
from redis import Redis
from rq import Queue, SimpleWorker

OPTIONS = {"job_timeout": -1, "description": "link"}


def link():
    return 1


def last():
    done()


def one_chain(queue):
    job = queue.enqueue("rq_chains.link", **OPTIONS)
    for n in range(LINKS - 1):
        name = "link" if n < LINKS - 2 else "last"
        job = queue.enqueue(f"rq_chains.{name}", depends_on=job, **OPTIONS)


def one_group(queue, count):
    data = [Queue.prepare_data("rq_chains.link", timeout=-1, description="link")] * count
    members = queue.enqueue_many(data)
    queue.enqueue("rq_chains.last", depends_on=members, **OPTIONS)


if __name__ == "__main__":
    import rq_chains  # noqa: F401  loaded before the first job

    what, count = sys.argv[1], int(sys.argv[2])
    connection = Redis.from_url(URL)
    queue = Queue("bench", connection=connection)
    if what == "work":
        SimpleWorker([queue], connection=connection, log_job_description=False).work(
            logging_level="CRITICAL"
        )
    elif what == "chain":
        measure(lambda: [one_chain(queue) for _ in range(count)], count)
    else:
        measure(lambda: one_group(queue, count), 1)
