-- repeat: one repeat.  In: key.
select key, spec, cursor, state, reason, revision, count, last from _mita_repeat where key = :key
