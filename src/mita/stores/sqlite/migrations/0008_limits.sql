-- Limits: the conditions of a start beside the resource key (JSON), the group of a fair share and
-- its weight, and the key at which a blocked job waits.
alter table _mita_job add column gates text default '[]';
alter table _mita_job add column fair text;
alter table _mita_job add column weight integer default 1000;
alter table _mita_job add column blocked_at text;
update _mita_job set blocked_at = resource where state = 'blocked';

-- What an operator has set for a queue (JSON: concurrency, interval_us, burst), the number of its
-- rate, and whether it ever had a job with a group.
alter table _mita_queue add column stored_limit text;
alter table _mita_queue add column tat_us integer not null default 0;
alter table _mita_queue add column has_groups integer not null default 0;

-- Keys with a rate or a stored limit. `wake_at`: when the next job that waits there may be woken by
-- the clock; null if only a run that ends can, or no job waits.
create table _mita_key (
  queue        text    not null,
  key          text    not null,
  tat_us       integer not null default 0,
  woken_us     integer not null default 0,
  interval_us  integer not null default 0,
  burst        integer not null default 1,
  wake_at      integer,
  stored_limit text,
  primary key (queue, key)
) without rowid;
create index _mita_wake on _mita_key (queue, wake_at) where wake_at is not null;

-- The running jobs that have a key beside their resource key.
create table _mita_holder (
  queue text    not null,
  key   text    not null,
  job   integer not null,
  primary key (queue, key, job)
) without rowid;

-- The virtual time of each queue and priority with groups, and of each group that is ahead of it.
create table _mita_turn (
  queue    text    not null,
  priority integer not null,
  virtual  integer not null,
  primary key (queue, priority)
) without rowid;
create table _mita_share (
  queue    text    not null,
  priority integer not null,
  fair     text    not null,
  finished integer not null,
  primary key (queue, priority, fair)
) without rowid;

-- The groups of a priority are read one by one. A blocked job waits at any of its keys.
drop index _mita_ready;
create index _mita_ready on _mita_job (queue, priority, fair, due, seq, state)
  where state = 'queued';
drop index _mita_waiters;
create index _mita_waiters on _mita_job (queue, blocked_at, priority desc, due, seq)
  where state = 'blocked';
