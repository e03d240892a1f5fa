-- page: jobs that match, newest first.  In: {where} made of bound comparisons, and limit.
select id, task, queue, state, priority, due, created, payload, options, headers, attempts, reschedules, busy, interruptions, crashes,
       error, result, resource, most, when_busy, uniq, unique_for, repeat, fire_time, progress, stranded, token, worker, started,
       lease_until, asked, finished, expires
from mita._job where {where} order by id desc limit %(limit)s::bigint
