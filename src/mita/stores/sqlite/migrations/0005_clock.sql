-- Whether a point in time was named by a person (1) or counted from now (0). The second kind moves
-- when the clock is corrected.
alter table _mita_job add column due_fixed integer not null default 0;
alter table _mita_job add column asked_fixed integer not null default 0;
alter table _mita_hold add column fixed integer not null default 0;
