-- Take a lock if it is free or expired, if this holder has it, or if it lasts longer than a day,
-- which no lock does.  In: name, holder, until, now.  Changes a row if the lock was taken.
insert into _mita_lock (name, holder, until) values (:name, :holder, :until)
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where holder = excluded.holder or until <= :now or typeof(until) <> 'integer'
  or until > :now + {lock_longest}
