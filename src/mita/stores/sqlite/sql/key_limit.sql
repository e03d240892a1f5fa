-- Set or remove the limit of a key. Jobs that were woken under the old limit are counted anew.
-- In: queue, key, stored_limit (JSON or null).
insert into _mita_key (queue, key, stored_limit) values (:queue, :key, :stored_limit)
on conflict (queue, key) do update set stored_limit = excluded.stored_limit, woken_us = tat_us
