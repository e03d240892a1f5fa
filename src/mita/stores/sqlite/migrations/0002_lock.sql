-- Locks that run out by themselves. They only spare work.
create table _mita_lock (
  name   text primary key,
  holder text    not null,
  until  integer not null
) without rowid;
