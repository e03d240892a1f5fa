-- How many runs ended: a row for each minute and each hour (`span`, its length in ms). The free space
-- in each page is for new versions of its rows: workers add to the newest ones every few seconds.
create table mita._history (
  span        bigint not null,
  at          bigint not null,
  queue       text   not null,
  task        text   not null,
  succeeded   bigint not null,
  failed      bigint not null,
  retried     bigint not null,
  rescheduled bigint not null,
  cancelled   bigint not null,
  run_ms      bigint not null,
  wait_ms     bigint not null,
  primary key (span, at, queue, task)
) with (fillfactor = 70);
