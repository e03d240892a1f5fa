-- Limits: the conditions of a start beside the resource key (JSON), the group of a fair share and
-- its weight, and the key at which a blocked job waits. A plain job has none of them: a column that
-- is null costs nothing.
alter table mita._job
  add column gates jsonb,
  add column fair text collate "C",
  add column weight integer,
  add column blocked_at text collate "C";
update mita._job set blocked_at = resource where state = 'blocked';

-- Jobs of a fair group have an index of their own, so that a claim finds the first job of each
-- group, and the first job without a group. The older `_ready` and `_waiters` go with 0009.
create index _ungrouped on mita._job (queue, priority, due, seq)
  where state = 'queued' and fair is null;
create index _grouped on mita._job (queue, priority, fair, due, seq)
  where state = 'queued' and fair is not null;
create index _blocked on mita._job (queue, blocked_at, priority desc, due, seq)
  where state = 'blocked';

-- Running jobs and their keys beside the resource key. A row whose job does not run counts for
-- nothing.
create table mita._key_holder (
  queue text collate "C" not null,
  key   text collate "C" not null,
  id    text collate "C" not null,
  primary key (queue, key, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- Keys with a rate or a stored limit. A start of a key at which no job waits changes no indexed
-- column: with free space in the page, such an update is heap-only.
create table mita._key (
  queue        text collate "C" not null,
  key          text collate "C" not null,
  tat_us       bigint  not null default 0,  -- the two numbers of the rate (`rules.gates`)
  woken_us     bigint  not null default 0,
  interval_us  bigint  not null default 0,  -- the rate of the latest start
  burst        bigint  not null default 1,
  wake_at      bigint,                      -- when the clock wakes the next job that waits here
  stored_limit jsonb,                       -- what an operator has set
  primary key (queue, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create index _key_wakes on mita._key (queue, wake_at) where wake_at is not null;

-- Queues with a stored limit, and the number of their rate.
create table mita._queue_limit (
  queue        text collate "C" primary key,
  stored_limit jsonb  not null,
  tat_us       bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- Every queue that ever had jobs with several keys, a rate or a group, or a stored limit; and
-- whether it had jobs of fair groups. Claims of other queues look at nothing else of all this. No
-- key, as in `_queue`.
create table mita._limited (
  queue   text collate "C" not null,
  is_fair boolean not null
);

-- Whose turn it is (`rules.shares`): the virtual time of a queue and priority, and that of each
-- group that is ahead of it.
create table mita._turn (
  queue    text collate "C" not null,
  priority integer not null,
  virtual  bigint  not null,
  finished jsonb   not null,
  primary key (queue, priority)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
