-- key_wake: return the first jobs that wait for keys to the queue: as many as may run by the limit
-- of the first of them. Keys with a rate or a stored limit, and keys whose first job has several,
-- are only named: `key_first` and `key_return` follow. The end of a run does not open a rate: then
-- a key is only named if the first job or a stored limit counts its holders.
-- In: queues, keys, mosts (how many at most, null for all), watermarks (no holder by its resource
--     key started before).
-- Out: queue and null for each job that was returned, queue and key for each key that is only
--     named; the last column is not used.
with clock as materialized (select {now} as now),
asked as materialized (
  select v.*, first.most as limit,
         first.gates is not null or k.key is not null as special,
         v.most is null or first.resource = v.key or k.stored_limit is not null
           or jsonb_path_exists(first.gates, 'strict $[*] ? (@[0] == $key && @[1] != null)',
                                jsonb_build_object('key', v.key), true) as named
  from unnest(
    %(queues)s::text::text[], %(keys)s::text::text[], %(mosts)s::text::int[],
    %(watermarks)s::text::bigint[]
  ) as v (queue, key, most, watermark)
  cross join lateral (
    select w.most, w.resource, w.gates from mita._job as w
    where w.state = {blocked} and w.queue = v.queue and w.blocked_at = v.key
    order by w.priority desc, w.due, w.seq limit 1) as first
  left join mita._key as k on k.queue = v.queue and k.key = v.key
),
room as (
  select a.queue, a.key,
         least(
           a.most,
           greatest(a.limit, 1)
           - (select count(*) from mita._job as h
              where h.state = {running} and h.resource is not null
                and h.queue = a.queue and h.resource = a.key
                and h.started >= a.watermark)
           - (select count(*) from mita._key_holder as h
              join mita._job as j on j.id = h.id and j.state = {hidden_running}
              where h.queue = a.queue and h.key = a.key)) as jobs
  from asked as a, clock
  where not a.special
    and not exists (
      select 1 from mita._hold as h
      where h.queue = a.queue and h.key = a.key and h.until > clock.now)
),
first as materialized (
  select w.id from room
  cross join lateral (
    select w.id from mita._job as w
    where w.state = {blocked} and w.queue = room.queue and w.blocked_at = room.key
    order by w.priority desc, w.due, w.seq
    limit greatest(0, coalesce(room.jobs, 0))) as w
),
woken as (
  update mita._job as j set state = {to_wake}, blocked_at = null
  from first as f, clock
  where j.id = f.id and j.state = {hidden_blocked}
  returning j.queue, case when j.due < clock.now - {behind_ms} then nextval('mita._behind') end
)
select w.queue, null as key, w.case as behind from woken as w
union all
select a.queue, a.key, null from asked as a where a.special and a.named
