-- messages_since: what was told after that, less what was read already: who tells first need not be the first to be seen.
-- In: seq, seen.  Out: seq, queue, count, events.
select seq, queue, count, events from mita._told
where seq > %(seq)s::bigint and seq <> all (%(seen)s::text::bigint[])
order by seq limit 100
