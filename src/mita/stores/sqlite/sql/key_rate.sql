-- Store the two numbers of the rates of keys, the rates, and when the next job that waits at each
-- may be woken.
-- In: {rows} of queue, key, tat_us, woken_us, interval_us, burst, wake_at.
insert into _mita_key (queue, key, tat_us, woken_us, interval_us, burst, wake_at)
select r.* from (values {rows}) as r where true
on conflict (queue, key) do update
set tat_us = excluded.tat_us, woken_us = excluded.woken_us, interval_us = excluded.interval_us,
    burst = excluded.burst, wake_at = excluded.wake_at
