-- next_fire: the next cursor that has not come yet.  In: now.  Out: a moment or null.
select min(cursor) from _mita_repeat indexed by _mita_next_fire where state = 'active' and cursor > :now and typeof(cursor) = 'integer'
