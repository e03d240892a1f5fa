"""Every Redis key there is, made here and nowhere else.

All keys of one queue share the hash tag `{queue}`, so that a cluster keeps them on one node and one
script can act on them. What belongs to no queue has the tag `{@}`, which no queue can be called.
Scripts are handed the root of a queue (`mita:{mail}`) and make the rest of a name as this table
says. The line of each priority has two halves: `ready:0` to `ready:9` are lists of the jobs that
were due when they came, in that order; `due:0` to `due:9` are sorted sets of all other queued jobs,
by their due time."""

OF_A_QUEUE = {
    "meta": "hash: newest (age of the newest job, and when it came), paused (since when), lines "
    "(the priorities that were "
    "ever used), gone:0 to gone:9 (how many in a list of ready jobs are not there any more), "
    "batch (number of the newest), "
    "index (until when ids are kept by name), scan (how far that is)",
    "jobs": "hash id -> what never changes",
    "live": "hash id -> what changes, for jobs that were ever touched",
    "error": "hash id -> text of the last error",
    "result": "hash id -> what it gave back",
    "progress": "hash id -> how far its run has come",
    "ids": "sorted set of ids, by name: for pages, while somebody looks at them",
    "lease": "sorted set of running jobs and of batches, by the end of their lease",
    "runs": "hash batch -> the live half of its jobs, + batch -> their ids",
    "left": "hash batch -> how many of its jobs still run under its lease",
    "blocked": "sorted set of jobs that wait for a key",
    "succeeded": "sorted set, by the moment they ended",
    "failed": "sorted set, by the moment they ended",
    "cancelled": "sorted set, by the moment they ended",
    "expiry": "sorted set of ended jobs, by the moment they will be forgotten",
    "unique": "hash unique key -> id of its job",
    "unique_ends": "sorted set of unique keys that outlive their job, by their end",
    "holds": "sorted set of resource keys on hold, by its end",
    "held": "set of resource keys that a running job has",
    "waited": "set of resource keys that somebody waits for",
}
BY_NAME = {
    "waiting": "sorted set of the jobs that wait for a resource key, in their order",
    "holders": "set of the running jobs of a resource key",
    "calls": "hash of the latest calls of one store -> what they came to, for some minutes",
    "events": "list of what happened to a job",
    "memos": "hash of what a job's runs remembered",
}
SHARED = {
    "queues": "set of the names of all queues that ever had a job or were paused",
    "places": "set of the names of queues that ever had a hold",
    "repeats": "hash key -> what changes of a repeat",
    "specs": "hash key -> its spec",
    "fires": "sorted set of active repeats, by their cursor",
    "locks": "hash name -> holder",
    "lock_ends": "sorted set of locks, by their end",
    "parcels": "hash of won firings -> their jobs, until those are delivered",
    "promised": "sorted set of those, by the moment of winning",
    "workers": "hash id -> how a worker described itself",
    "beats": "sorted set of workers, by the end of their last beat",
    "seen": "hash id -> moment of a worker's last beat",
    "ears": "sorted set of those who listen to what happens, by the end of their listening: "
    "queue and id",
    "shared": "hash name -> a memo for all jobs",
    "shared_ends": "sorted set of those, by their end",
}


class KeyNames:
    """The keys and channels of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.shared = f"{namespace}:{{@}}"
        self.queues = f"{self.shared}:queues"
        self.queues_with_holds = f"{self.shared}:places"
        self.notify_channel = f"{namespace}:bell"

    def queue(self, name: str) -> str:
        """The root of a queue's keys."""
        return f"{self.namespace}:{{{name}}}"

    def event_channel(self, queue: str) -> str:
        """The channel for the events of a queue."""
        return f"{self.namespace}:told:{queue}"


_TAILS = {name: f":{name}" for name in (*OF_A_QUEUE, *SHARED)} | {
    name: f":{name}:" for name in (*BY_NAME, "ready", "due")
}


def as_lua() -> str:
    """The same table for the scripts: from a root to its names, each made when it is first asked
    for."""
    queue, shared = (
        {name: _TAILS[name] for name in table} for table in (OF_A_QUEUE | BY_NAME, SHARED)
    )
    return _LUA.format(queue=_table(queue), shared=_table(shared), sound="\n".join(_probes()))


def tails(names: list[str]) -> str:
    """What follows a root in these names, for a script that has no time for the whole table."""
    return "".join(f"local {name.upper()} = '{_TAILS[name]}'\n" for name in names)


def _table(tails: dict[str, str]) -> str:
    return ", ".join(f"{name} = '{tail}'" for name, tail in tails.items())


def _probes() -> list[str]:
    probe = {"hash": "HLEN", "sorted": "ZCARD", "set": "SCARD"}
    return [
        f"  redis.call('{probe[kind.split()[0].strip(':')]}', q.{name})"
        for name, kind in OF_A_QUEUE.items()
    ]


_LUA = """\
local OF_A_QUEUE = {{ {queue} }}
local SHARED = {{ {shared} }}

local of_a_queue, shared = {{}}, {{}}
function of_a_queue.__index(q, name)
  local tail = OF_A_QUEUE[name]
  if tail then q[name] = q.root .. tail end
  return rawget(q, name)
end
function shared.__index(s, name)
  s[name] = s.root .. SHARED[name]
  return s[name]
end

local function queue_of(root)
  return setmetatable({{ root = root, name = root:match('{{(.*)}}$') }}, of_a_queue)
end

local function shared_of(root) return setmetatable({{ root = root }}, shared) end

local function ready_of(q, priority) return q.root .. ':ready:' .. priority end

local function due_of(q, priority) return q.root .. ':due:' .. priority end

-- The jobs of another queue on the same server.
local function jobs_of(s, queue)
  return s.root:gsub('@}}$', '') .. queue .. '}}' .. OF_A_QUEUE.jobs
end

-- A key of another type is found out by these reads, before the first write.
local function sound(q)
{sound}
  q.sound = true
  return q
end

local function sound_lines(q)
  for priority = 0, 9 do
    redis.call('ZCARD', due_of(q, priority))
    redis.call('LLEN', ready_of(q, priority))
  end
  return q
end
"""
