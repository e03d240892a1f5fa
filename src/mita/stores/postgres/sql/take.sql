-- take: claim jobs with a resource key that may run.  In: ids, lease, worker.  Out: id, the moment.
update mita._job as j
set state = 'running', token = j.token + 1, worker = %(worker)s, started = clock.now, lease_until = clock.now + %(lease)s::bigint
from unnest(%(ids)s::text::text[]) as v (id), (select {now} as now) as clock
where j.id = v.id and j.state = {queued}
returning j.id, clock.now
