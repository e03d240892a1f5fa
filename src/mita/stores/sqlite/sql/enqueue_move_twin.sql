-- A waiting job is debounced: it gets another due time and the newest arguments.
-- In: seq, due, payload, options, headers.
update _mita_job
set state = {queued}, due = :due, due_fixed = 0, payload = :payload, options = :options,
    headers = :headers, blocked_at = null
where seq = :seq and state in {waiting}
