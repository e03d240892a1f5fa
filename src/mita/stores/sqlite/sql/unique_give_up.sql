-- unique_give_up: the job is deleted; a key that it still has is free at once.  In: queue, key, id.
delete from _mita_unique where queue = :queue and key = :key and id = :id
