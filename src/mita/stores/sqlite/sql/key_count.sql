-- How many running jobs have a key.  In: queue, key.
select (select count(*) from _mita_job indexed by _mita_holders
        where resource is not null and state = {running} and queue = :queue and resource = :key)
       + (select count(*) from _mita_holder where queue = :queue and key = :key)
