-- How many runs ended: a row for each minute and each hour (`span`, its length in ms).
create table _mita_history (
  span        integer not null,
  at          integer not null,
  queue       text    not null,
  task        text    not null,
  succeeded   integer not null,
  failed      integer not null,
  retried     integer not null,
  rescheduled integer not null,
  cancelled   integer not null,
  run_ms      integer not null,
  wait_ms     integer not null,
  primary key (span, at, queue, task)
) without rowid;
