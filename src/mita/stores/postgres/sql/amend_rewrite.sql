-- amend_rewrite: give jobs that do not run other arguments.
-- In: ids, payload, note.  Out: id, queue, state, asked, all as found.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.asked
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
rewritten as (
  update mita._job as j
  set payload = %(payload)s::bytea,
      timeline = mita._noted(j.timeline, clock.now, {kind_amended}, %(note)s::text, null)
  from found as f, clock
  where j.id = f.id and f.state in {may_rewrite}
)
select id, queue, state, asked from found
