-- queues: Out: name, since when it is paused.
select name, paused from mita._queue order by name
