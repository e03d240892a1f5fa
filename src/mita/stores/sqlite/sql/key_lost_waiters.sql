-- Blocked jobs that wait at no key return to their queue. An older version, or a person, may have
-- left them; no key would wake them.
update _mita_job indexed by _mita_waiters set state = {to_wake}
where state = {blocked} and queue in (select name from _mita_queue) and blocked_at is null
  and resource is not null
