-- any_unmet: does a job stand where no claim or reap looks? A priority, a due time or a lease that is no number within bounds, a blocked
-- job without a key, a queue that is no text. Texts and blobs come after all numbers, and blobs after all texts.  In: now.  Out: 1 or 0.
select exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_ready
               where j.state = 'queued' and j.queue = q.name and j.priority > 9)
    or exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_ready
               where j.state = 'queued' and j.queue = q.name and j.priority < 0)
    or exists (select 1 from (select name from _mita_queue) as q
               cross join (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as p
               cross join _mita_job as j indexed by _mita_ready
               where j.state = 'queued' and j.queue = q.name and j.priority = p.column1 and j.due > 253402300799999)
    or exists (select 1 from _mita_job indexed by _mita_leased where state = 'running' and lease_until > 253402300799999)
    or exists (select 1 from _mita_job indexed by _mita_leased where state = 'running' and lease_until is null)
    or exists (select 1 from _mita_job indexed by _mita_leased where state = 'running' and lease_until < 0)
    or exists (select 1 from _mita_job indexed by _mita_ready where state = 'queued' and queue >= x'')
    or exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_waiters
               where j.state = 'blocked' and j.queue = q.name and j.resource is null)
    or exists (select 1 from _mita_job indexed by _mita_waiters where state = 'blocked' and queue >= x'')
