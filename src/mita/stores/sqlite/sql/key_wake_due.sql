-- Keys of these queues whose next job may be woken now, the earliest of each queue first.
-- In: queues (a JSON list), now, limit.  Out: queue, key.
select k.queue, k.key
from json_each(:queues) as q
cross join _mita_key as k indexed by _mita_wake
where k.wake_at is not null and k.queue = q.value and k.wake_at <= :now
limit :limit
