-- due_repeats: In: now, limit.
select key, spec, cursor, state, reason, revision, count, last from _mita_repeat indexed by _mita_next_fire
where state = 'active' and cursor <= :now order by cursor, key limit :limit
