-- Resume a paused repeat, which counts its failures from 0.  In: key.
update _mita_repeat set state = {active}, pause_reason = '', failures = 0
where key = :key and state = {paused}
