-- arrive: tell jobs how others have ended. A queued job that enough jobs have told is due now.
-- In: for each arrival its receiver, name (of the once value), value, and how many the receiver
--     needs.
-- Out: receiver, queue, state, the names that it had before (null if its values cannot be read),
--      whether it is due now.
with clock as materialized (select {now} as now),
told as materialized (
  select v.receiver, max(v.needs) as needs,
         jsonb_object_agg(v.name, encode(v.value, 'base64')) as memos
  from unnest(
    %(receivers)s::text::text[], %(names)s::text::text[], %(values)s::text::bytea[],
    %(needs)s::text::bigint[]
  ) as v (receiver, name, value, needs)
  group by v.receiver
),
locked as materialized (
  select j.id, j.queue, j.state, j.due, t.needs, t.memos as new, coalesce(j.memos, '{}') as before
  from told as t join mita._job as j on j.id = t.receiver order by j.id
  for update of j
),
found as materialized (
  select l.*, case jsonb_typeof(l.before) when 'object' then l.new || l.before end as after
  from locked as l
),
counted as materialized (
  select f.*, f.state = {queued} and f.due > clock.now and f.needs <= (
    select count(*) from jsonb_object_keys(f.after) as k (name) where starts_with(k.name, {arrival})
  ) as is_due
  from found as f, clock
),
written as (
  update mita._job as j
  set memos = c.after, due = case when c.is_due then clock.now else j.due end
  from counted as c, clock
  where j.id = c.id and c.state <> {succeeded} and c.after <> c.before
)
select c.id, c.queue, c.state,
       case when c.after is not null then array(select jsonb_object_keys(c.before)) end, c.is_due
from counted as c
