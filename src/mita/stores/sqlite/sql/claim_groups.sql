-- The first due jobs of each group of a queue, as ONE JSON text: of each group its share of `limit`
-- jobs, and two more. The recursion goes from priority to priority and from group to group over the
-- index, so a group with 100,000 jobs costs no more than a group with one.
-- In: queue, now, limit.
-- Out: how many jobs of a group were read at most; a list of
-- [priority, its virtual time, group (null: none), virtual time of the group,
-- [[due, seq, weight], …]].
with recursive p (priority) as ({priorities_in_use}
), g (priority, fair) as materialized (
  select p.priority, (
    select fair from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.priority and fair is not null
    order by fair limit 1)
  from p where p.priority is not null
  union all
  select g.priority, (
    select fair from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = g.priority and fair > g.fair
    order by fair limit 1)
  from g where g.fair is not null
), n (each) as materialized (
  select :limit / max(1, count(fair)) + 2 from g
)
select (select each from n), json_group_array(json_array(
    g.priority,
    (select virtual from _mita_turn as t
     where t.queue = :queue and t.priority = g.priority and typeof(virtual) = 'integer'),
    g.fair,
    (select finished from _mita_share as s
     where s.queue = :queue and s.priority = g.priority and s.fair = coalesce(g.fair, '')
       and typeof(finished) = 'integer'),
    json((
      select json_group_array(json_array(due, seq, weight)) from (
        select due, seq, weight from _mita_job indexed by _mita_ready
        where state = {queued} and queue = :queue and priority = g.priority and fair is g.fair
          and due <= :now
        order by due, seq limit (select each from n))))))
from g
