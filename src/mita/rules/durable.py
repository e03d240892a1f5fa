"""Durable handlers: under which names a job keeps its steps, sleeps and signals.

They are values of `job.once`, so every store keeps them with the job, across runs and retries. All
of these names begin with `RESERVED`, which handlers may not use for names of their own.

- A step keeps its result, and when it ended.
- A sleep keeps the time at which it ends.
- A wait keeps its time-out, so that a signal knows that the job waits for it.
- A signal keeps its value. A store writes it, without a claim (`SignalJob`). A wait that has timed
  out keeps an empty value in its place: a signal that comes later is refused.
"""

RESERVED = "mita:"
STEP = f"{RESERVED}step:"
SLEEP = f"{RESERVED}sleep:"
WAIT = f"{RESERVED}wait:"
SIGNAL = f"{RESERVED}signal:"


def step_name(name: str) -> str:
    """The name under which a job keeps the result of this step."""
    return STEP + name


def sleep_name(name: str) -> str:
    """The name under which a job keeps the end of this sleep."""
    return SLEEP + name


def wait_name(name: str) -> str:
    """The name under which a job keeps until when it waits for this signal."""
    return WAIT + name


def signal_name(name: str) -> str:
    """The name under which a job keeps the value of this signal."""
    return SIGNAL + name
