-- Subscriptions to events, and the newest messages for them. Nothing depends on either. Migration
-- 0007 gives the tables other names.
create table _mita_ear (
  id    text primary key,
  queue text    not null,
  until integer not null
) without rowid;
create table _mita_told (
  seq    integer primary key autoincrement,
  at     integer not null,
  queue  text    not null,
  count  integer not null,
  events blob    not null
);
