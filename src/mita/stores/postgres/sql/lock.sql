-- lock: take a name for a while, if it is free, has run out, is this holder's, or lasts for longer than a day, which no lock does.  In: name, holder, keep.  Out: a row when it was had.
-- A lock that a crash of the server undoes spares less work, which is all a lock does: nobody waits for the disk. It is said in the
-- same statement, so that no process can be stopped between the two.
insert into mita._lock as l (name, holder, until)
select %(name)s, %(holder)s, {now} + %(keep)s::bigint
from (select set_config('synchronous_commit', 'off', true)) as unsynced (setting) where unsynced.setting = 'off'
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where l.holder = excluded.holder or l.until <= {now} or l.until > {now} + 86400000
returning name
