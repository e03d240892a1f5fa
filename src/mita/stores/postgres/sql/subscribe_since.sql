-- subscribe_since: the messages after a number, without those that were read already. A message
-- with a lower number may be committed later.
-- In: seq, seen.  Out: seq, queue, count, events.
select seq, queue, count, events from mita._told
where seq > %(seq)s::bigint and seq <> all (%(seen)s::text::bigint[])
order by seq limit 100
