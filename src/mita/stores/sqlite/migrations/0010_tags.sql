-- Tags: only jobs that have some have rows here.
create table _mita_tag (
  job integer not null,
  tag text    not null,
  primary key (job, tag)
) without rowid;
create index _mita_tagged on _mita_tag (tag, job);

-- A debounce replaces the options of a job, and with them its tags. Nothing else writes this column.
create trigger _mita_retagged after update of options on _mita_job
begin delete from _mita_tag where job = old.seq; end;
