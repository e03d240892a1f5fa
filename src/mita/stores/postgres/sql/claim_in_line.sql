-- claim_in_line: the part of `claim` that finds the jobs, priority after priority.
-- In: what `claim` takes.  Out: the tables `candidate` and `short` (here never short).
-- There is no "order by" around it all: for each queue and priority the index is read in the order
-- (due, seq), and a sort would read the whole backlog.
candidate as materialized (
  select j.*, facts.now
  from facts
  cross join line
  cross join lateral (
    select {columns}
    from mita._job as j
    where j.state = {queued} and j.fair is null
      and j.queue = line.queue and j.priority = line.priority
      and j.due <= facts.now and j.due >= line.first
    order by j.due, j.seq
    limit %(limit)s::bigint
    for update skip locked
  ) as j
  where line.ready and not facts.mixed and not facts.waits and not facts.has_strays
  limit %(limit)s::bigint
),
short as (select false as is_short)
