-- A repeat counts the jobs that failed in a row, and says why it was paused.
alter table _mita_repeat add column failures integer not null default 0;
alter table _mita_repeat add column pause_reason text not null default '';
