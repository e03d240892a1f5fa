-- hold: nobody with this key starts before then.  In: queue, key, until.
insert into _mita_hold (queue, key, until, fixed) values (:queue, :key, :until, :fixed)
on conflict (queue, key) do update set until = excluded.until, fixed = excluded.fixed
