-- fire: the compare-and-set of one firing.  Out: a row when it won, none when somebody else fired, edited or paused it.
update mita._repeat
set cursor = %(next)s::bigint, count = count + %(fired)s::bigint, last = coalesce(%(last)s::bigint, last), state = %(state)s, reason = %(reason)s
where key = %(key)s and cursor = %(cursor)s::bigint and revision = %(revision)s::int and state = 'active'
returning key
