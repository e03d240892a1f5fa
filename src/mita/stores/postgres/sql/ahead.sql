-- ahead: how many jobs run before this one: of the ready jobs of its queue if it is ready, of the
-- blocked jobs at its key if it is blocked.
-- In: id, ageing (ms or null).
-- Out: the number, or null if groups take turns in its queue (then `ahead_in_turn` follows); no row
--     if the job is neither ready nor blocked.
with me as (
  select j.queue, j.blocked_at, j.state, j.priority, j.due, j.seq, clock.now,
         case when %(ageing)s::bigint is null then - j.priority
              else j.due - j.priority * %(ageing)s::bigint end as rank
  from mita._job as j, (select {now} as now) as clock
  where j.id = %(id)s
    and (j.state = {blocked} or (j.state = {queued} and j.due <= clock.now))
)
select case
  when me.state = {blocked} then (
    select count(*) from mita._job as j
    where j.state = {blocked} and j.queue = me.queue and j.blocked_at = me.blocked_at
      and (j.priority > me.priority
           or (j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq))))
  when not exists (
    select 1 from mita._job as j
    where j.state = {queued} and j.fair is not null and j.queue = me.queue)
  then (
    select count(*) from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = me.queue and j.due <= me.now
      and (case when %(ageing)s::bigint is null then - j.priority
                else j.due - j.priority * %(ageing)s::bigint end, - j.priority, j.due, j.seq)
          < (me.rank, - me.priority, me.due, me.seq))
  end
from me
