-- fire: the compare-and-set of firings, each of another repeat, and the jobs of those that won taken in (none has a unique key). One statement:
-- who is stopped while he fires has either said nothing yet or is not needed any more, and leaves no rows locked.
-- One that somebody else fired, edited or paused has lost. So has one that somebody else is changing at this moment: he may have
-- been stopped in the middle, and nobody waits for him.
-- In: an array for each column of a firing; those of `insert` for its jobs, and makers: the key of the firing that makes the job.
-- Out: the key of each that won, or no key and a queue that jobs were taken into.
with standing as materialized (
  select v.*
  from unnest(
    %(keys)s::text::text[], %(cursors)s::text::bigint[], %(revisions)s::text::int[], %(nexts)s::text::bigint[],
    %(fireds)s::text::bigint[], %(lasts)s::text::bigint[], %(states)s::text::text[], %(reasons)s::text::text[]
  ) as v (key, cursor, revision, next, fired, last, state, reason)
  join mita._repeat as r on r.key = v.key and r.cursor = v.cursor and r.revision = v.revision and r.state = 'active'
  for update of r skip locked
),
won as (
  update mita._repeat as r
  set cursor = s.next, count = r.count + s.fired, last = coalesce(s.last, r.last), state = s.state, reason = s.reason
  from standing as s
  where r.key = s.key
  returning r.key
),
made as (
  insert into mita._job (state, id, task, queue, priority, due, created, payload, options, headers,
                         resource, most, when_busy, unique_for, repeat, fire_time)
  select 'queued', v.id, v.task, v.queue, v.priority, case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end,
         clock.now, v.payload, v.options, v.headers, v.resource, v.most, v.when_busy, v.unique_for, v.repeat, v.fire_time
  from (select {now} as now) as clock
  cross join unnest(
    %(makers)s::text::text[], %(ids)s::text::text[], %(tasks)s::text::text[], %(queues)s::text::text[], %(priorities)s::text::int[],
    %(waits)s::text::bigint[], %(ats)s::text::bigint[], %(payloads)s::text::bytea[], %(options)s::text::bytea[],
    %(headers)s::text::bytea[], %(resources)s::text::text[], %(mosts)s::text::int[], %(whens_busy)s::text::text[],
    %(unique_fors)s::text::bigint[], %(repeats)s::text::text[], %(fire_times)s::text::bigint[]
  ) as v (maker, id, task, queue, priority, wait, at, payload, options, headers, resource, most, when_busy, unique_for, repeat, fire_time)
  -- "is true" keeps it a look into a table of hashes; without it the planner would make a join of it, and walk all for each.
  where (v.maker in (select won.key from won)) is true
  on conflict (id) do nothing
  returning queue
),
known as (
  insert into mita._queue (name)
  select distinct made.queue from made where made.queue not in (select q.name from mita._queue as q)
)
select won.key, null as queue from won
union all
select distinct null, made.queue from made
