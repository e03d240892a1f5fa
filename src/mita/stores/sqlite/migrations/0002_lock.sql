-- Locks that expire by themselves. They only save work.
create table _mita_lock (
  name   text primary key,
  holder text    not null,
  until  integer not null
) without rowid;
