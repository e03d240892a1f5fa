-- Pause an active repeat.  In: key, reason.
update _mita_repeat set state = {paused}, pause_reason = :reason
where key = :key and state = {active}
