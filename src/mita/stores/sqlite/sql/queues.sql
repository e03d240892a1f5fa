-- Out: the name of each queue, since when it is paused, its limit, and the number of its rate.
select name, paused, stored_limit, tat_us from _mita_queue order by name
