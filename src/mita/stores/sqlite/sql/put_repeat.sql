-- Insert or replace a repeat.
insert into _mita_repeat ({repeat_columns})
values (:key, :spec, :cursor, :state, :reason, :revision, :count, :last, :failures,
        :pause_reason)
on conflict (key) do update set
  spec = excluded.spec, cursor = excluded.cursor, state = excluded.state, reason = excluded.reason,
  revision = excluded.revision, count = excluded.count, last = excluded.last,
  failures = excluded.failures, pause_reason = excluded.pause_reason
