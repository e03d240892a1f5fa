-- A job takes a unique key: until it ends (null), or until then.  In: queue, key, id, until.
insert into _mita_unique (queue, key, id, until) values (:queue, :key, :id, :until)
on conflict (queue, key) do update set id = excluded.id, until = excluded.until
