"""Every Redis key, named here and nowhere else, for Python and for Lua.

All keys of one queue share the hash tag `{queue}`: a cluster keeps them on one node, so one script
can use them all. Keys that belong to no queue have the tag `{@}`, which no queue can be called. A
script gets the root of a queue (`mita:{mail}`) and appends a suffix from these tables.

Each priority of a queue has two keys, for example `ready:5` and `due:5`. The first is a list of the
jobs that were due when they were enqueued, in that order. The second is a sorted set of all other
queued jobs, by due time. Jobs with `fair` are in neither: each group of a priority has a sorted set
of its own.

    mita:{mail}:jobs       a key of queue "mail"
    mita:{mail}:ready:5    the list of its priority 5
    mita:{mail}:group:5:a  the jobs of group "a" in its priority 5
    mita:{mail}:events:ID  the timeline of one of its jobs
    mita:{@}:repeats       a key of the namespace "mita"
    mita:wake              the channel for wake-ups
    mita:events:mail       the channel for the events of queue "mail"
"""

from .lua_text import as_lua

QUEUE_KEYS = {
    "meta": "hash: newest (age of the newest job, and when it came), paused (since when), lines "
    "(the priorities that were ever used: see `include/priorities.lua`), gone:5 (how many jobs of "
    "the list of a priority are only marked as removed), batch (number of the newest batch), index "
    "(until when `ids` is kept), scan (how far it is built), flow (what of flow control the queue "
    "uses, as letters: see "
    "`include/flow.lua`), limit (the limit of the queue), level (`tat_us` of its rate), virtual:5 "
    "(the virtual time of a priority)",
    "jobs": "hash: id -> the fixed part of its record",
    "live": "hash: id -> the live part of its record, or the name of its batch",
    "error": "hash: id -> the text of its last error",
    "result": "hash: id -> its result",
    "progress": "hash: id -> how far its run has come",
    "ids": "sorted set of ids by name, for pages; kept only while pages are read",
    "lease": "sorted set of running jobs and of batches, by the end of the lease",
    "runs": "hash: batch -> the live part of its jobs, and '+' batch -> their ids",
    "left": "hash: batch -> how many of its jobs still run under its lease",
    "blocked": "sorted set of jobs that wait for a resource key",
    "succeeded": "sorted set of jobs, by the time of their end",
    "failed": "sorted set of jobs, by the time of their end",
    "dead_groups": "set of the groups that failed jobs have (`rules.fingerprint`)",
    "cancelled": "sorted set of jobs, by the time of their end",
    "expiry": "sorted set of ended jobs, by the end of their retention",
    "unique": "hash: unique key -> id of its job",
    "unique_ends": "sorted set of unique keys by the time they become free: keys of jobs that have "
    "ended, and keys with a throttle",
    "holds": "sorted set of resource keys on hold, by the end of the hold",
    "held": "set of resource keys that a running job has",
    "waited": "set of resource keys that a job waits for",
}
# Keys of a queue that has rates or limits. Scripts read their types only in such a queue.
FLOW_KEYS = {
    "rates": "hash: key -> tat_us, woken_us, interval_us and burst of its rate (`rules.gates`)",
    "wakes": "sorted set of keys with a rate that jobs wait for, by the time of the next wake-up",
    "limits": "hash: key -> the limit that an operator has set for it",
}
# Keys of a queue that has groups of `fair`, by priority.
GROUP_KEYS = {
    "group": "followed by the name of a group: sorted set of its queued jobs, by due time",
    "groups_next": "sorted set of groups with queued jobs whose turn has come: age of the first "
    "job and name, by its due time",
    "groups_later": "the same for groups whose turn comes later",
    "turns": "sorted set of groups whose turn comes later, by its virtual time (`rules.shares`)",
}
# Keys of a queue with one more name behind them.
QUEUE_KEYS_BY_NAME = {
    "waiting": "by resource key: sorted set of the jobs that wait for it, by priority and due time",
    "holders": "by resource key: set of the running jobs that have it",
    "dead": "by group: sorted set of its failed jobs, by the time of their end",
    "calls": "by store: hash of its latest calls -> their answers, for some minutes",
    "events": "by job id: list of the lines of its timeline",
    "once_values": "by job id: hash of its once values",
}
NAMESPACE_KEYS = {
    "queues": "set of the names of all queues that ever had a job or were paused",
    "queues_with_holds": "set of the names of queues that ever had a hold",
    "repeats": "hash: key -> what changes of a repeat",
    "specs": "hash: key -> the spec of a repeat",
    "fires": "sorted set of active repeats, by their cursor",
    "locks": "hash: name -> holder",
    "lock_ends": "sorted set of locks, by their end",
    "undelivered": "hash: firing -> its jobs, until they are enqueued (on a cluster only)",
    "undelivered_since": "sorted set of these firings, by their time",
    "workers": "hash: id -> the description of a worker",
    "heartbeat_ends": "sorted set of workers, by the time until which their last heartbeat counts",
    "seen": "hash: id -> time of a worker's last heartbeat",
    "subscriptions": "sorted set of event subscriptions (queue and id), by the time they end",
    "shared_once": "hash: name -> a once value for all jobs",
    "shared_once_ends": "sorted set of these names, by the end of their retention",
    "audit": "sorted set of the ids of the entries of the audit log, by name",
    "audit_entries": "hash: id -> the time of an entry, what filters look at, the packed entry",
    "history_minutes": "followed by the start of a minute: hash: queue and task -> how their runs "
    "ended; the server deletes it",
    "history_hours": "the same for an hour",
}
# Version 0.1 had other names for these keys. They stay in Redis, because there is data under them:
# a rename would have to find the key of every job, while other processes use it.
_STORED_AS = {
    "once_values": "memos",
    "queues_with_holds": "places",
    "undelivered": "parcels",
    "undelivered_since": "promised",
    "heartbeat_ends": "beats",
    "subscriptions": "ears",
    "shared_once": "shared",
    "shared_once_ends": "shared_ends",
}


def _stored(name: str) -> str:
    return _STORED_AS.get(name, name)


class KeyNames:
    """The keys and channels of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.shared = f"{namespace}:{{@}}"
        self.queues = self.in_namespace("queues")
        self.queues_with_holds = self.in_namespace("queues_with_holds")
        self.notify_channel = f"{namespace}:wake"

    def queue(self, name: str) -> str:
        """The root of a queue's keys."""
        return f"{self.namespace}:{{{name}}}"

    def in_namespace(self, name: str) -> str:
        """A key of `NAMESPACE_KEYS`."""
        return f"{self.shared}:{_stored(name)}"

    def event_channel(self, queue: str) -> str:
        """The channel for the events of a queue."""
        return f"{self.namespace}:events:{queue}"


_SUFFIXES = {name: f":{_stored(name)}" for name in (*QUEUE_KEYS, *FLOW_KEYS, *NAMESPACE_KEYS)} | {
    name: f":{_stored(name)}:" for name in (*QUEUE_KEYS_BY_NAME, *GROUP_KEYS, "ready", "due")
}


def key_functions() -> str:
    """The same tables for the scripts: tables `q` and `s` make a name when it is first used."""
    queue = {name: _SUFFIXES[name] for name in QUEUE_KEYS | QUEUE_KEYS_BY_NAME}
    flow = "\n".join(
        f"  if name == '{name}' then return '{_SUFFIXES[name]}' end"
        for name in FLOW_KEYS | GROUP_KEYS
    )
    namespace = {name: _SUFFIXES[name] for name in NAMESPACE_KEYS}
    return _LUA.format(queue=as_lua(queue), flow=flow, namespace=as_lua(namespace))


def type_checks() -> str:
    """Functions that read every key of a queue, so that one of another type is found before the
    first write."""
    return _TYPE_CHECKS.format(
        checks="\n".join(_type_checks({**QUEUE_KEYS, "meta": ""})),
        flow_checks="\n".join(_type_checks(FLOW_KEYS)),
        group_keys=as_lua([name for name in GROUP_KEYS if name != "group"]),
    )


def key_suffixes(names: list[str]) -> str:
    """Only these suffixes, as constants, for a script that must not pay for the whole table."""
    return "".join(f"local {name.upper()} = '{_SUFFIXES[name]}'\n" for name in names)


def _type_checks(keys: dict[str, str]) -> list[str]:
    command = {"hash": "HLEN", "sorted": "ZCARD", "set": "SCARD"}
    return [
        f"  redis.call('{command[kind.replace(':', ' ').split()[0]]}', q.{name})"
        for name, kind in keys.items()
        if kind  # `meta` is read anyway
    ]


_LUA = """\
local QUEUE_SUFFIXES = {queue}
local NAMESPACE_SUFFIXES = {namespace}

-- Not a table: the few calls that need these names would make it anew for each name.
local function flow_suffix(name)
{flow}
end

local function queue_key(q, name)
  local suffix = QUEUE_SUFFIXES[name] or flow_suffix(name)
  if suffix then q[name] = q.root .. suffix end
  return rawget(q, name)
end

-- What is false here is found without a look at the names of keys.
local function queue_of(root)
  return setmetatable({{
    root = root, name = root:match('{{(.*)}}$'), types_checked = false, flow_types_checked = false,
    shared_lives = false, places = false, touched_keys = false, virtual = false,
    changed_levels = false, priorities = false, holder_counts = false,
  }}, {{ __index = queue_key }})
end

local function namespace_key(s, name)
  s[name] = s.root .. NAMESPACE_SUFFIXES[name]
  return s[name]
end

local function namespace_of(root)
  return setmetatable({{ root = root }}, {{ __index = namespace_key }})
end

local function ready_of(q, priority) return q.root .. ':ready:' .. priority end

local function due_of(q, priority) return q.root .. ':due:' .. priority end

-- The jobs of another queue on the same server.
local function jobs_of(s, queue)
  return s.root:gsub('@}}$', '') .. queue .. '}}' .. QUEUE_SUFFIXES.jobs
end
"""

_TYPE_CHECKS = """\
-- include priorities

-- The keys of flow control. Only a queue that uses it pays for this.
local function check_flow_types(q)
{flow_checks}
  q.flow_types_checked = true
end

-- The keys of the groups of a priority.
local function check_group_types(q, priority)
  for _, name in ipairs({group_keys}) do redis.call('ZCARD', q[name] .. priority) end
end

-- Read every key of a queue: a key of another type raises here, before the first write.
local function check_types(q)
{checks}
  q.flow = q.flow or redis.call('HGET', q.meta, 'flow') or ''
  if q.flow ~= '' then check_flow_types(q) end
  q.types_checked = true
  return q
end

local function check_types_of(q, priority)
  redis.call('ZCARD', due_of(q, priority))
  redis.call('LLEN', ready_of(q, priority))
  if q.flow:find(GROUPS, 1, true) then check_group_types(q, priority) end
end

-- The same with the keys of the priorities that the queue uses.
local function check_used_types(q)
  check_types(q)
  for _, priority in ipairs(used_priorities(q)) do check_types_of(q, priority) end
  return q
end
"""
