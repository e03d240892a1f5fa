-- amend_reschedule: run jobs at another time. A running job finishes its run first.
-- In: ids, wait, at, note; `at` is a point in time, or null and `wait` counts.
-- Out: id, queue, state, asked, blocked_at, all as found.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.asked, j.blocked_at,
         case when %(at)s::bigint is null then clock.now + %(wait)s::bigint
              else greatest(%(at)s::bigint, clock.now) end as due
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id, clock
  for update of j
),
moved as (
  update mita._job as j
  set state = {to_reschedule}, due = f.due, reschedules = j.reschedules + 1,
      blocked_at = null,
      timeline = mita._noted(j.timeline, clock.now, {kind_rescheduled}, %(note)s::text, null)
  from found as f, clock
  where j.id = f.id and f.state in {waiting}
),
asked as (
  update mita._job as j
  set asked = {asked_reschedule}, asked_due = f.due, asked_keep = null,
      reschedules = j.reschedules + 1,
      timeline = mita._noted(j.timeline, clock.now, {kind_rescheduled}, %(note)s::text, null)
  from found as f, clock
  where j.id = f.id and f.state = {running} and not {too_late_to_reschedule}
)
select id, queue, state, asked, blocked_at from found
