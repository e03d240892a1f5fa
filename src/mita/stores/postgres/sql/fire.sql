-- fire: apply firings, each of another repeat, and enqueue the jobs of those that won (none of the
-- jobs has a unique key). A firing loses if its repeat was fired, edited or paused meanwhile. It
-- also loses if the repeat is being changed at this moment: that process may have been stopped, and
-- nothing waits for it. One statement, so a process that is stopped while it fires leaves no row
-- locked.
-- In: one array for each column of a firing; one for each field of its jobs, as for `enqueue`; and
--     makers: for each job the key of its firing.
-- Out: key and null for each firing that won; null and queue for each queue that got jobs.
with current as materialized (
  select v.*
  from unnest(
    %(keys)s::text::text[], %(cursors)s::text::bigint[], %(revisions)s::text::int[],
    %(nexts)s::text::bigint[], %(fireds)s::text::bigint[], %(lasts)s::text::bigint[],
    %(states)s::text::text[], %(reasons)s::text::text[]
  ) as v (key, cursor, revision, next, fired, last, state, reason)
  join mita._repeat as r
    on r.key = v.key and r.cursor = v.cursor and r.revision = v.revision and r.state = {active}
  for update of r skip locked
),
won as (
  update mita._repeat as r
  set cursor = c.next, count = r.count + c.fired, last = coalesce(c.last, r.last),
      state = c.state, reason = c.reason
  from current as c
  where r.key = c.key
  returning r.key
),
made as (
  insert into mita._job (state, due, created, {new_columns})
  select {queued},
         case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end,
         clock.now, {new_values}
  from (select {now} as now) as clock
  cross join unnest(%(makers)s::text::text[], {new_arrays}) as v (maker, {new_names})
  -- With "is true" this stays a look into a hash table. Without it the planner would make a join of
  -- it, and read all winners for each job.
  where (v.maker in (select won.key from won)) is true
  on conflict (id) do nothing
  returning queue, fair, gates
),
limited as (
  insert into mita._limited (queue, is_fair)
  select distinct made.queue, made.fair is not null from made
  where (made.fair is not null or made.gates is not null)
    and not exists (
      select 1 from mita._limited as l
      where l.queue = made.queue and l.is_fair = (made.fair is not null))
),
known as (
  insert into mita._queue (name)
  select distinct made.queue from made
  where made.queue not in (select q.name from mita._queue as q)
)
select won.key, null as queue from won
union all
select distinct null, made.queue from made
