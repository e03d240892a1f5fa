-- In: job (0: shared), name, value, expires.
insert into _mita_once_value (job, name, value, expires) values (:job, :name, :value, :expires)
on conflict (job, name) do update set value = excluded.value, expires = excluded.expires
