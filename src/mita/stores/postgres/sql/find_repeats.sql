-- find_repeats: In: keys.
select key, spec, cursor, state, reason, revision, count, last from mita._repeat where key = any (%(keys)s::text::text[])
