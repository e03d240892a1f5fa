-- Tags (a JSON list), for the search by tag. A job without tags has null, which costs nothing, and is
-- in no index of them.
alter table mita._job add column tags jsonb;
create index _tagged on mita._job using gin (tags jsonb_path_ops) where tags is not null;
