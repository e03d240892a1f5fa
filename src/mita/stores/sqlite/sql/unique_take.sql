-- A job takes a unique key.  In: queue, key, id.
insert into _mita_unique (queue, key, id) values (:queue, :key, :id)
on conflict (queue, key) do update set id = excluded.id, until = null
