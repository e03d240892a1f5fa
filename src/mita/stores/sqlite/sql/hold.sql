-- Put a resource key on hold.  In: queue, key, until, fixed.
insert into _mita_hold (queue, key, until, fixed) values (:queue, :key, :until, :fixed)
on conflict (queue, key) do update set until = excluded.until, fixed = excluded.fixed
