-- A job has ended. Its unique key is free from `until` on, unless a throttle keeps it.
-- In: queue, key, id, until.
update _mita_unique set until = :until
where queue = :queue and key = :key and id = :id and until is null
