-- amend_signal: store a signal of jobs, unless there is one. A job that waits for it is due now.
-- In: ids, name (of the signal), signal and wait (the names of its once values), value.
-- Out: id, queue, state as found; whether the signal was stored, null if its once values cannot be
-- read.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, coalesce(j.memos, '{}') ? %(signal)s::text as known,
         jsonb_typeof(coalesce(j.memos, '{}')) = 'object' as readable
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
signalled as (
  update mita._job as j
  set memos = coalesce(j.memos, '{}')
              || jsonb_build_object(%(signal)s::text, encode(%(value)s::bytea, 'base64')),
      due = case when f.state = {queued} and coalesce(j.memos, '{}') ? %(wait)s::text
                 then least(j.due, clock.now) else j.due end,
      timeline = mita._noted(j.timeline, clock.now, {kind_signalled}, %(name)s::text, null)
  from found as f, clock
  where j.id = f.id and f.state in {alive} and f.readable and not f.known
)
select id, queue, state, case when readable then not known end from found
