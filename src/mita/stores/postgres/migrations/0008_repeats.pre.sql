-- A repeat counts the jobs that failed in a row, and says why it was paused.
alter table mita._repeat add column failures bigint not null default 0;
alter table mita._repeat add column pause_reason text not null default '';
