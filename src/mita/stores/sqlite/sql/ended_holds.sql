-- ended_holds: the holds that have run out.  In: queues (a JSON list, null for all), now.  Out: queue, key.
select queue, key from _mita_hold
where until <= :now and (:queues is null or queue in (select value from json_each(:queues)))
order by queue, key
