-- The audit log: what operators changed. `seq` is the order of arrival, by which old entries are
-- deleted; pages go by `id`. `entry` is the packed entry.
create table _mita_audit (
  seq    integer primary key,
  id     text    not null unique,
  at     integer not null,
  who    text    not null,
  what   text    not null,
  target text    not null,
  entry  blob    not null
);
