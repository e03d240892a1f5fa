-- The names of the paused queues.
select name from _mita_queue where paused is not null
