-- Holds that are over, and holds whose end cannot be read.
-- In: queues (a JSON list, null for all), now.  Out: queue, key.
select queue, key from _mita_hold
where (until <= :now or typeof(until) <> 'integer')
  and (:queues is null or queue in (select value from json_each(:queues)))
order by queue, key
