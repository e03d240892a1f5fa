-- The first due jobs of each group of a queue, as ONE JSON text: of each group its share of `limit`
-- jobs, and two more. The recursion goes from group to group over the index, so a group with
-- 100,000 jobs costs no more than a group with one.
-- In: queue, now, limit.
-- Out: how many jobs of a group were read at most; a list of
-- [priority, group (null: none), [[due, seq, weight], …]].
with recursive g (priority, fair) as materialized (
  select p.column1, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.column1 and fair is not null)
  from (values {priorities}) as p
  union all
  select g.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = g.priority and fair > g.fair)
  from g where g.fair is not null
), n (each) as materialized (
  select :limit / max(1, count(fair)) + 2 from g
)
select (select each from n), json_group_array(json_array(g.priority, g.fair, json((
    select json_group_array(json_array(due, seq, weight)) from (
      select due, seq, weight from _mita_job indexed by _mita_ready
      where state = {queued} and queue = :queue and priority = g.priority and fair is g.fair
        and due <= :now
      order by due, seq limit (select each from n))))))
from g
