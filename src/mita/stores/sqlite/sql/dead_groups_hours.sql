-- How many jobs of a group failed in each hour.
-- In: group, queue, task, starts (a JSON list of the moments at which the hours begin).
-- Out: count, one row for each hour in the order of `starts`.
select (
  select count(*) from _mita_job indexed by _mita_dead
  where state = {failed} and coalesce(failure_group, '') = :group and queue = :queue
    and task = :task and finished > start.value
    and finished <= coalesce(json_extract(:starts, '$[' || (start.key + 1) || ']'), {latest}))
from json_each(:starts) as start order by start.key
