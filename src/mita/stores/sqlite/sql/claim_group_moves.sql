-- Store the virtual times of groups.  In: {rows} of queue, priority, group, virtual time.
insert into _mita_share (queue, priority, fair, finished)
select r.* from (values {rows}) as r where true
on conflict (queue, priority, fair) do update set finished = excluded.finished
