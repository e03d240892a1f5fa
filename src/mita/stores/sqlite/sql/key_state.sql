-- In: queue, key.  Out: how many running jobs have the resource key, and until when it is on hold.
select (select count(*) from _mita_job indexed by _mita_holders
        where resource is not null and state = {running} and queue = :queue and resource = :key),
       (select until from _mita_hold
        where queue = :queue and key = :key and typeof(until) = 'integer')
