-- The number of jobs that are not queued, by queue and state. Each part reads an index only. The
-- recursion goes from queue to queue and from state to state, because a range of an index is
-- counted faster than groups of it.  Out: queue, state, count.
with recursive d (name) as (
  select min(queue) from _mita_job indexed by _mita_done where finished is not null
  union all
  select (select min(queue) from _mita_job indexed by _mita_done
          where finished is not null and queue > d.name)
  from d where d.name is not null
), s (queue, state) as (
  select d.name, (select min(state) from _mita_job indexed by _mita_done
                  where finished is not null and queue = d.name)
  from d where d.name is not null
  union all
  select s.queue, (select min(state) from _mita_job indexed by _mita_done
                   where finished is not null and queue = s.queue and state > s.state)
  from s where s.state is not null
), b (name) as (
  select min(queue) from _mita_job indexed by _mita_waiters where state = {blocked}
  union all
  select (select min(queue) from _mita_job indexed by _mita_waiters
          where state = {blocked} and queue > b.name)
  from b where b.name is not null
)
select s.queue, s.state, (
  select count(*) from _mita_job indexed by _mita_done
  where finished is not null and queue = s.queue and state = s.state)
from s where s.state is not null
union all
select b.name, {blocked}, (
  select count(*) from _mita_job indexed by _mita_waiters
  where state = {blocked} and queue = b.name)
from b where b.name is not null
union all
select queue, {running}, count(*) from _mita_job indexed by _mita_leased
where state = {running} group by queue
