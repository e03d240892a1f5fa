-- The number of jobs by queue and state. Each part reads an index only.
-- Out: queue, state, count, and how many of them have no due time.
select queue, {queued}, count(*), count(*) filter (where due = {latest})
from _mita_job indexed by _mita_ready
where state = {queued} group by queue
union all
select queue, {running}, count(*), 0 from _mita_job indexed by _mita_leased
where state = {running} group by queue
union all
select queue, {blocked}, count(*), 0 from _mita_job indexed by _mita_waiters
where state = {blocked} group by queue
union all
select queue, state, count(*), 0 from _mita_job indexed by _mita_done
where finished is not null group by queue, state
