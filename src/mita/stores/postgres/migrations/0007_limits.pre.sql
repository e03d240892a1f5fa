-- Limits: the conditions of a start beside the resource key (JSON), the group of a fair share and
-- its weight, and the key at which a blocked job waits.
alter table mita._job
  add column gates jsonb not null default '[]',
  add column fair text,
  add column weight integer not null default 1000,
  add column blocked_at text;
update mita._job set blocked_at = resource where state = 'blocked';
