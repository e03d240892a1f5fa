-- held: one claim, if its token is still the newest.  In: seq, token.  Out: the row, or none.
select asked, asked_due, asked_fixed, asked_keep, worker, unique_for from _mita_job where seq = :seq and token = :token and state = 'running'
