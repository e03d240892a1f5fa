-- In: queue, key.
delete from _mita_hold where queue = :queue and key = :key
