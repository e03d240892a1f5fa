-- ahead: how many jobs run before this one: of the ready jobs of its queue if it is ready, of the
-- blocked jobs at its key if it is blocked. For each priority in use they are a range of the index:
-- those that are due before this one, or, with ageing, so much later as the priority is higher.
-- In: id, ageing (ms or null).
-- Out: the number, or null if groups take turns in its queue (then `ahead_in_turn` follows); no row
--     if the job is neither ready nor blocked.
with recursive me as materialized (
  select j.queue, j.blocked_at, j.state, j.priority, j.due, j.seq, clock.now
  from mita._job as j, (select {now} as now) as clock
  where j.id = %(id)s
    and (j.state = {blocked} or (j.state = {queued} and j.due <= clock.now))
),
other (priority) as (
  select first.priority from me
  cross join lateral (
    select j.priority from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = me.queue
    order by j.priority limit 1) as first
  where me.state = {queued}
  union all
  select next.priority from me, other
  cross join lateral (
    select j.priority from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = me.queue
      and j.priority > other.priority
    order by j.priority limit 1) as next
),
-- the last due time of a job of another priority that runs first
line as (
  select other.priority,
         least(me.now, case
           when %(ageing)s::bigint is null then
             case when other.priority > me.priority then me.now end
           else me.due + (other.priority - me.priority) * %(ageing)s::bigint
                - (other.priority < me.priority)::int end) as last
  from me, other
  where other.priority <> me.priority
    and (%(ageing)s::bigint is not null or other.priority > me.priority)
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
    where j.state = {queued} and j.fair is null and j.queue = me.queue
      and j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq)
  ) + (
    select coalesce(sum(before.jobs), 0) from line
    cross join lateral (
      select count(*) as jobs from mita._job as j
      where j.state = {queued} and j.fair is null and j.queue = me.queue
        and j.priority = line.priority and j.due <= line.last) as before)
  end
from me
