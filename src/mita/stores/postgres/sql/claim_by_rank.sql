-- claim_by_rank: the part of `claim_mixed` that finds the jobs: in each queue by their due time and
-- `ageing` for each priority. Twice as many are ranked as may be taken, because other workers may
-- have locked the first.
-- In: what `claim` takes.  Out: the tables `candidate` and `short` (whether locked rows were left
--     out, so that there may be more).
ranked as materialized (
  select j.id, facts.now
  from facts
  cross join line
  cross join lateral (
    select j.id, j.due, j.seq
    from mita._job as j
    where j.state = {queued} and j.fair is null
      and j.queue = line.queue and j.priority = line.priority
      and j.due <= facts.now and j.due >= line.first
    order by j.due, j.seq
    limit 2 * %(limit)s::bigint
  ) as j
  where line.ready and not facts.waits and not facts.has_strays
  order by line.turn, j.due - line.priority * coalesce(%(ageing)s::bigint, 0),
           line.priority desc, j.due, j.seq
  limit 2 * %(limit)s::bigint
),
candidate as materialized (
  select j.*, ranked.now
  from ranked
  cross join lateral (
    select {columns}
    from mita._job as j
    where j.id = ranked.id and j.state = {hidden_queued}
    for update skip locked
  ) as j
  limit %(limit)s::bigint
),
short as (
  select (select count(*) from candidate) < %(limit)s::bigint
         and (select count(*) from candidate) < (select count(*) from ranked) as is_short
)
