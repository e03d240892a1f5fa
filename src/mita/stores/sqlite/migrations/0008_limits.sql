-- Limits: the conditions of a start beside the resource key (JSON), the group of a fair share and
-- its weight, and the key at which a blocked job waits.
alter table _mita_job add column gates text not null default '[]';
alter table _mita_job add column fair text;
alter table _mita_job add column weight integer not null default 1000;
alter table _mita_job add column blocked_at text;
update _mita_job set blocked_at = resource where state = 'blocked';
