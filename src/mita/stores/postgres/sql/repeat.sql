-- repeat: one repeat.  In: key.
select key, spec, cursor, state, reason, revision, count, last from mita._repeat where key = %(key)s
