-- claim: the next due jobs of some queues, in the order in which they run. Jobs without a key are
-- taken at once. Jobs with one are only shown: `claim_take` or `claim_block` follow. Nothing is
-- taken if one of the queues has holds, or ever had limits (then `claim_limited` follows), or if
-- jobs of several priorities are due that age (then `claim_mixed`).
-- In: for each queue and priority, in their order, one entry of the arrays queues, priorities,
--     watermarks (nothing waits before); names (the queues alone); behind (the value of the
--     sequence to which the watermarks belong); ageing (ms or null); limit, lease, worker; unsynced
--     (whether the commit need not wait for the disk).
-- Out: first a row with a header, the JSON object of `codec.ClaimHeader`; then a row for each job,
--     with null as its header, and the fields of a Claim but those of limits. `next_due` is the
--     next point in time at which a job is due.
-- One statement, because a worker that was asleep pays for each statement: what it needs to run it
-- is no longer in the processor's caches. And a short one, because the server prepares each part of
-- it anew for every claim.
with clock as materialized (
  select {now} as now, (select last_value from mita._behind) as behind,
         case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end
),
line as materialized (
  select v.queue, v.priority, v.n, first.due as first, first.due <= clock.now as ready
  from clock
  cross join unnest(
    %(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[]
  ) with ordinality as v (queue, priority, watermark, n)
  cross join lateral (
    select j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = v.queue and j.priority = v.priority
      and j.due >= case when clock.behind = %(behind)s::bigint then v.watermark else 0 end
    order by j.due limit 1) as first
  where v.queue not in (select p.name from mita._paused as p)
),
facts as materialized (
  select clock.now, clock.behind, lines.next_due,
         %(ageing)s::bigint is not null and lines.ready > lines.queues as mixed,
         exists (select 1 from mita._limited as l where l.queue = any (%(names)s::text::text[]))
         or exists (select 1 from mita._hold as h where h.queue = any (%(names)s::text::text[]))
           as waits
  from clock, (select {line_facts} from line) as lines
),
{candidate},
taken as (
  update mita._job as j
  set state = {to_claim}, token = greatest(j.token + 1, c.now), worker = %(worker)s,
      started = c.now, lease_until = c.now + %(lease)s::bigint
  from candidate as c
  where j.id = c.id and c.resource is null
),
header as (
  select facts.now, facts.behind, facts.waits as is_limited, facts.mixed,
         (select short.is_short from short) as is_short,
         least(
           facts.next_due,
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
select row_to_json(header)::text as header, {plain_claim_nulls} from header
union all
select null, {plain_claimed} from candidate as c
