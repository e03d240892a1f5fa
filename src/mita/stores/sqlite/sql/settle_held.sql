-- One claim, if it is still valid.
-- In: seq, token.  Out: asked, asked_due, asked_fixed, asked_keep, worker, unique_for; or no row.
select asked, asked_due, asked_fixed, asked_keep, worker, unique_for from _mita_job
where seq = :seq and token = :token and state = {running}
