-- arrive: tell jobs how others have ended. A queued job that enough jobs have told is due now.
-- In: for each arrival its receiver, name (of the once value), value, and how many the receiver
--     needs.
-- Out: receiver, queue, state, the names that it had before, whether it is due now.
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
found as materialized (
  select j.id, j.queue, j.state, j.due, t.needs, coalesce(j.memos, '{}') as before,
         t.memos || coalesce(j.memos, '{}') as after
  from told as t join mita._job as j on j.id = t.receiver order by j.id
  for update of j
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
select c.id, c.queue, c.state, array(select jsonb_object_keys(c.before)), c.is_due from counted as c
