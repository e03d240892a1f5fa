-- Store the two numbers of a key's rate, the rate, and when its next waiting job may be woken.
-- In: queue, key, tat_us, woken_us, interval_us, burst, wake_at.
insert into _mita_key (queue, key, tat_us, woken_us, interval_us, burst, wake_at)
values (:queue, :key, :tat_us, :woken_us, :interval_us, :burst, :wake_at)
on conflict (queue, key) do update
set tat_us = excluded.tat_us, woken_us = excluded.woken_us, interval_us = excluded.interval_us,
    burst = excluded.burst, wake_at = excluded.wake_at
