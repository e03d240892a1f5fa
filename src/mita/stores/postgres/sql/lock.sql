-- lock: take a name for a while, if it is free, has run out or is this holder's.  In: name, holder, keep.  Out: a row when it was had.
insert into mita._lock as l (name, holder, until)
values (%(name)s, %(holder)s, {now} + %(keep)s::bigint)
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where l.holder = excluded.holder or l.until <= {now}
returning name
