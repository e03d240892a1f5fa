-- hold: nobody with this key starts before then.  In: queue, key, until.
insert into _mita_hold (queue, key, until) values (:queue, :key, :until)
on conflict (queue, key) do update set until = excluded.until
