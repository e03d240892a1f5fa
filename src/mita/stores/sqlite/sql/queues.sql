-- Out: the name of each queue, and since when it is paused.
select name, paused from _mita_queue order by name
