-- The number of jobs by queue and state. Each part reads an index only.
select queue, {queued}, count(*) from _mita_job indexed by _mita_ready
where state = {queued} group by queue
union all
select queue, {running}, count(*) from _mita_job indexed by _mita_leased
where state = {running} group by queue
union all
select queue, {blocked}, count(*) from _mita_job indexed by _mita_waiters
where state = {blocked} group by queue
union all
select queue, state, count(*) from _mita_job indexed by _mita_done
where finished is not null group by queue, state
