-- run_history: the counts per minute or per hour, oldest first.
-- In: span and keep (the length of a minute or an hour, and how long it is kept, in ms), since,
-- queue and task (null: any).  Out: at, queue, task, and the numbers.
select h.at, h.queue, h.task, {history_found}
from (select greatest(%(since)s::bigint, {now} - %(keep)s::bigint) as since) as v,
  mita._history as h
where h.span = %(span)s::bigint and h.at >= v.since - v.since % %(span)s::bigint
  and (%(queue)s::text is null or h.queue = %(queue)s::text)
  and (%(task)s::text is null or h.task = %(task)s::text)
order by h.at, h.queue collate "C", h.task collate "C"
