-- lock: take or renew a named lock. It can be taken if it is free, has expired, belongs to this
-- holder, or would last longer than any lock may.
-- In: name, holder, keep (ms).  Out: a row if this holder has it now.
-- The commit does not wait for the disk: a lock only saves work, so one that a crash undoes does no
-- harm. The setting is part of the statement, so no process can be stopped between the two.
insert into mita._lock as l (name, holder, until)
select %(name)s, %(holder)s, {now} + %(keep)s::bigint
from (select set_config('synchronous_commit', 'off', true)) as unsynced (setting)
where unsynced.setting = 'off'
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where l.holder = excluded.holder or l.until <= {now} or l.until > {now} + {lock_longest}
returning name
