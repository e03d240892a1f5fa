-- The timeline line of a failed run also has its error, and when the run was started.
alter table _mita_event add column error text not null default '';
alter table _mita_event add column started integer;
