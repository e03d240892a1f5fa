-- A queued job without a due time is shown as waiting: it waits for other jobs or for a signal.
create or replace view mita.jobs as
select id, task, queue,
       case when state <> 'queued' then state
            when due = 253402300799999 then 'waiting'
            when due > extract(epoch from clock_timestamp()) * 1000 then 'scheduled'
            else 'ready' end as state,
       priority, attempts, reschedules, busy, interruptions, crashes, error, resource,
       uniq as "unique", worker, repeat,
       to_timestamp(due / 1000.0) as due,
       to_timestamp(created / 1000.0) as created,
       to_timestamp(started / 1000.0) as started,
       to_timestamp(finished / 1000.0) as finished
from mita._job;
