-- The earliest fire time that is not due yet.  In: now.  Out: a point in time, or null.
select min(cursor) from _mita_repeat indexed by _mita_next_fire
where state = {active} and cursor > :now and typeof(cursor) = 'integer'
