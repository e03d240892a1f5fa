-- repeat: one repeat, which nobody else changes until the transaction ends.  In: key.
select key, spec, cursor, state, reason, revision, count, last from mita._repeat where key = %(key)s for update
