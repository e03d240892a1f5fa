-- Whether there is a job that no claim and no reap would ever find: its priority, due time or lease
-- is no number within bounds, it is blocked without a key, or its queue is no text. In SQLite texts
-- sort after numbers, and blobs after texts.  In: now.  Out: 1 or 0.
with recursive p (queue, priority) as ({queues_and_priorities})
select exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_ready
               where j.state = {queued} and j.queue = q.name and j.priority > {highest_priority})
    or exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_ready
               where j.state = {queued} and j.queue = q.name and j.priority < {lowest_priority})
    or exists (select 1 from p cross join _mita_job as j indexed by _mita_ready
               where j.state = {queued} and j.queue = p.queue and j.priority = p.priority
                 and j.fair is null and j.due > {latest})
    or exists (select 1 from _mita_job indexed by _mita_leased
               where state = {running} and lease_until > {latest})
    or exists (select 1 from _mita_job indexed by _mita_leased
               where state = {running} and lease_until is null)
    or exists (select 1 from _mita_job indexed by _mita_leased
               where state = {running} and lease_until < 0)
    or exists (select 1 from _mita_job indexed by _mita_ready
               where state = {queued} and queue >= x'')
    or exists (select 1 from (select name from _mita_queue) as q
               cross join _mita_job as j indexed by _mita_waiters
               where j.state = {blocked} and j.queue = q.name and j.blocked_at is null)
    or exists (select 1 from _mita_job indexed by _mita_waiters
               where state = {blocked} and queue >= x'')
