-- lock: take it if it is free, has run out, is ours, or lasts for longer than a day, which no lock does.  In: name, holder, until, now.  Changes a row when it was had.
insert into _mita_lock (name, holder, until) values (:name, :holder, :until)
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where holder = excluded.holder or until <= :now or typeof(until) <> 'integer' or until > :now + 86400000
