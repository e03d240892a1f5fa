-- The heartbeat of a worker.  In: id, view, seen, until.
insert into _mita_worker (id, view, seen, until) values (:id, :view, :seen, :until)
on conflict (id) do update set view = excluded.view, seen = excluded.seen, until = excluded.until
