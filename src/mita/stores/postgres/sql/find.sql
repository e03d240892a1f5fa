-- find: jobs by id.  In: ids.  Out: the columns in the order of the model's Job.
select id, task, queue, state, priority, due, created, payload, options, headers, attempts, reschedules, busy, interruptions, crashes,
       error, result, resource, most, when_busy, uniq, unique_for, repeat, fire_time, progress, stranded, token, worker, started,
       lease_until, asked, finished, expires
from mita._job where id = any (%(ids)s::text::text[])
