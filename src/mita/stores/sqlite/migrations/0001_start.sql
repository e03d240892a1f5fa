-- The first schema. Tables are private: their names begin with an underscore. The view mita_jobs is
-- for people. A number of a job (seq) is never used twice, or an old claim could touch a new job.
create table _mita_meta (
  name  text primary key,
  value text not null
) without rowid;

create table _mita_queue (
  name   text primary key,
  paused integer
) without rowid;

create table _mita_job (
  seq           integer primary key autoincrement,  -- age; never used twice
  id            text    not null unique,      -- ids sort by time, so this index grows at its end
  task          text    not null,
  queue         text    not null,
  state         text    not null check (
    state in ('queued', 'blocked', 'running', 'succeeded', 'failed', 'cancelled')),
  priority      integer not null,
  due           integer not null,
  created       integer not null,
  payload       blob    not null,
  options       blob    not null,
  headers       blob    not null,
  attempts      integer not null default 0,
  reschedules   integer not null default 0,
  busy          integer not null default 0,
  interruptions integer not null default 0,
  crashes       integer not null default 0,
  error         text,
  result        blob,
  resource      text,
  most          integer not null default 1,
  when_busy     text    not null default 'wait',
  uniq          text,
  unique_for    integer not null default 0,
  repeat        text,
  fire_time     integer,
  progress      blob,
  stranded      integer,
  token         integer not null default 0,
  worker        text,
  started       integer,
  lease_until   integer,
  asked         text,
  asked_due     integer,
  asked_keep    integer,
  finished      integer,
  expires       integer
);

-- One index per question, each only over the rows that the question is about. With `state` at its
-- end, the counts are read from _mita_ready alone.
create index _mita_ready   on _mita_job (queue, priority, due, seq, state) where state = 'queued';
create index _mita_leased  on _mita_job (lease_until, queue) where state = 'running';
create index _mita_waiters on _mita_job (queue, resource, priority desc, due, seq)
  where state = 'blocked';
create index _mita_holders on _mita_job (queue, resource)
  where state = 'running' and resource is not null;
create index _mita_done    on _mita_job (queue, state, finished, seq) where finished is not null;
create index _mita_expires on _mita_job (expires) where expires is not null;

create table _mita_unique (
  queue text not null,
  key   text not null,
  id    text not null,
  until integer,                               -- null while the job is not terminal
  primary key (queue, key)
) without rowid;

create table _mita_hold (
  queue text    not null,
  key   text    not null,
  until integer not null,
  primary key (queue, key)
) without rowid;

create table _mita_event (
  job    integer not null,
  n      integer not null,
  at     integer not null,
  kind   text    not null,
  note   text    not null,
  worker text,
  primary key (job, n)
) without rowid;

create table _mita_memo (
  job     integer not null,                    -- 0: shared by all jobs
  name    text    not null,
  value   blob    not null,
  expires integer,
  primary key (job, name)
) without rowid;

create table _mita_repeat (
  key      text primary key,
  spec     blob    not null,
  cursor   integer,
  state    text    not null,
  reason   text    not null default '',
  revision integer not null default 0,
  count    integer not null default 0,
  last     integer
) without rowid;

create index _mita_next_fire on _mita_repeat (cursor, key) where state = 'active';

create table _mita_worker (
  id    text primary key,
  view  blob    not null,
  seen  integer not null,
  until integer not null
) without rowid;

create view mita_jobs as
select id, task, queue, state, priority, attempts, reschedules, busy, interruptions, crashes, error,
       resource, uniq as "unique", worker, repeat,
       datetime(due / 1000, 'unixepoch') as due,
       datetime(created / 1000, 'unixepoch') as created,
       datetime(started / 1000, 'unixepoch') as started,
       datetime(finished / 1000, 'unixepoch') as finished
from _mita_job;
