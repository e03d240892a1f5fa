-- claim: the next due jobs of some queues, in the order in which they run. Jobs without a key are
-- taken at once. Jobs with one are only shown: `claim_take` or `claim_block` follow.
-- It is made of parts (`server.statements`). `{facts}` says whether anything is taken, and from
-- which queues nothing is: `claim_facts_plain` for queues that never had holds or limits,
-- `claim_facts_keyed` for queues that only have keys, `claim_facts_limited` for all others. If
-- nothing is taken because another of the three is needed, or because jobs of several priorities
-- are due that age (`mixed`), or because a job has a priority which the process does not know
-- (`strays`), that claim follows. `{candidate}` finds the jobs.
-- In: the lines, in their order: for each known priority of a queue, and for each range between
--     them, one entry of the arrays queues, turns (the place of the queue), lows and highs (the
--     priorities), watermarks (nothing waits before; -1 for a range); names (the queues alone);
--     behind (the value of the sequence to which the watermarks belong); ageing (ms or null);
--     limit, lease, worker; unsynced (whether the commit need not wait for the disk); keys_first
--     (nothing is taken while the clock has opened a key and its waiting jobs are not woken yet).
-- Out: first a row with a header, the JSON object of `codec.ClaimHeader`; then a row for each job,
--     with null as its header, and the fields of a Claim but those of limits; if its queue may have
--     limits, the columns of `codec.ShownRow`. `next_due` is the next point in time at which a
--     job is due.
-- One statement, because a worker that was asleep pays for each statement: what it needs to run it
-- is no longer in the processor's caches. And a short one, because the server prepares each part of
-- it anew for every claim.
with clock as materialized (
  select {now} as now, (select last_value from mita._behind) as behind,
         case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end
),
line as materialized (
  select v.queue, v.turn, first.priority, first.due as first, v.watermark < 0 as is_stray,
         v.watermark >= 0 and first.due <= clock.now as ready
  from clock
  cross join unnest(
    %(queues)s::text::text[], %(turns)s::text::int[], %(lows)s::text::int[],
    %(highs)s::text::int[], %(watermarks)s::text::bigint[]
  ) as v (queue, turn, low, high, watermark)
  cross join lateral (
    select j.priority, j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = v.queue
      and (j.priority, j.due) >= (
        v.low, case when clock.behind = %(behind)s::bigint then v.watermark else 0 end)
      and j.priority <= v.high
    order by j.priority, j.due limit 1) as first
  where v.queue not in ({closed})
),
{facts},
{candidate},
taken as (
  update mita._job as j
  set state = {to_claim}, token = greatest(j.token + 1, c.now), worker = %(worker)s,
      started = c.now, lease_until = c.now + %(lease)s::bigint
  from candidate as c
  where j.id = c.id and {is_free}
),
header as (
  select facts.*, (select short.is_short from short) as is_short,
         case when facts.has_strays then (
           select json_agg(json_build_array(line.queue, line.priority))
           from line where line.is_stray) end as strays,
         least(
           facts.next_time,
           (select min(j.due)
            from line
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is null and j.queue = line.queue
                and j.priority = line.priority and j.due > facts.now
              order by j.due limit 1) as j
            where line.ready)
         ) as next_due
  from facts
)
select row_to_json(header)::text as header, {nulls} from header
union all
select null, {found} from candidate as c
