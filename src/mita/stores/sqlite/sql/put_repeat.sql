-- put_repeat: write a repeat as it is given.
insert into _mita_repeat (key, spec, cursor, state, reason, revision, count, last)
values (:key, :spec, :cursor, :state, :reason, :revision, :count, :last)
on conflict (key) do update set spec = excluded.spec, cursor = excluded.cursor, state = excluded.state,
  reason = excluded.reason, revision = excluded.revision, count = excluded.count, last = excluded.last
