-- Add queues that are new.  In: names (a JSON list).
insert into _mita_queue (name) select value from json_each(:names) where true
on conflict (name) do nothing
