-- Settle one job.  In: seq, token and the new values; a null `error` or `due` keeps the old one.
update _mita_job
set state = :state, due = coalesce(:due, due), due_fixed = iif(:due is null, due_fixed, :fixed),
    error = coalesce(:error, error), result = :result, {count_one},
    stranded = case when :stranded then coalesce(stranded, :now) end,
    worker = case when :finished is null then null else worker end,
    lease_until = null, asked = null, asked_due = null, asked_fixed = 0, asked_keep = null,
    finished = :finished, expires = :expires, blocked_at = :blocked_at,
    failure_group = :failure_group
where seq = :seq and token = :token and state = {running}
