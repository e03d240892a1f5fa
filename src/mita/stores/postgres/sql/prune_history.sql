-- prune_history: delete the minutes and hours that are not shown any more. It does not wait for a
-- row that is being written.
-- In: nothing.  Out: no row.
delete from mita._history where (span, at, queue, task) in (
  select h.span, h.at, h.queue, h.task
  from (values {history_spans}) as s (span, kept)
  join mita._history as h on h.span = s.span and h.at < {now} - s.kept - s.span
  for update of h skip locked)
