-- list_repeats: all of them, by key.
select key, spec, cursor, state, reason, revision, count, last from mita._repeat order by key
