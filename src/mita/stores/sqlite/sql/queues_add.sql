-- Add queues that are new.  In: {rows} of a name.
insert into _mita_queue (name) select r.column1 from (values {rows}) as r where true
on conflict (name) do nothing
