-- settle_return: return jobs without keys to the queue, after a failure or a move by their handler.
-- A short form of `settle`, without what such verdicts never have. If something was asked of a job
-- while it ran, it is left to `settle`.
-- In: arrays: ids, tokens, waits, ats (a point in time, or null and the wait counts), counts (the
--     name of a counter or ''), errors, kinds, notes, failures and workers (of the timeline line).
-- Out: id, state, queue of the settlements that took; the last column is not used.
with clock as materialized (select {now} as now)
update mita._job as j
set state = {queued},
    due = case when h.at is null then coalesce(clock.now + h.wait, j.due)
               else greatest(h.at, clock.now) end,
    error = coalesce(h.error, j.error), result = null, {count}, stranded = null,
    timeline = case
      when cardinality(j.timeline) >= {longest_timeline}
      then mita._noted(j.timeline, clock.now, h.kind, h.note, coalesce(h.worker, j.worker),
                       h.failure, j.started)
      when h.failure = ''
      then coalesce(j.timeline, '{}') || json_build_array(
        clock.now, h.kind, h.note, coalesce(h.worker, j.worker))::text
      else coalesce(j.timeline, '{}') || json_build_array(
        clock.now, h.kind, h.note, coalesce(h.worker, j.worker), h.failure, j.started)::text end,
    worker = null, finished = null, expires = null, blocked_at = null, failure_group = null,
    lease_until = null
from clock, unnest(
  %(ids)s::text::text[], %(tokens)s::text::bigint[], %(waits)s::text::bigint[],
  %(ats)s::text::bigint[], %(counts)s::text::text[], %(errors)s::text::text[],
  %(kinds)s::text::text[], %(notes)s::text::text[], %(failures)s::text::text[],
  %(workers)s::text::text[]
) as h (id, token, wait, at, counts, error, kind, note, failure, worker)
where j.id = h.id and j.token = h.token and j.state = {hidden_running} and j.asked is null
returning j.id, j.state, j.queue,
          case when j.due < clock.now - {behind_ms} then nextval('mita._behind') end
