-- Store the virtual time of a queue and priority.  In: queue, priority, virtual.
insert into _mita_turn (queue, priority, virtual) values (:queue, :priority, :virtual)
on conflict (queue, priority) do update set virtual = excluded.virtual
