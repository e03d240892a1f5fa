-- The first due jobs of each group of a queue, as ONE JSON text. The recursion goes from group to
-- group over the index, so a group with 100,000 jobs costs no more than a group with one.
-- In: queue, now, each (how many of a group).
-- Out: a list of [priority, group (null: none), [[due, seq, weight], …]].
with recursive g (priority, fair) as (
  select p.column1, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.column1 and fair is not null)
  from (values {priorities}) as p
  union all
  select g.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = g.priority and fair > g.fair)
  from g where g.fair is not null
)
select json_group_array(json_array(priority, fair, json(jobs))) from (
  select g.priority, g.fair, (
    select json_group_array(json_array(due, seq, weight)) from (
      select due, seq, weight from _mita_job indexed by _mita_ready
      where state = {queued} and queue = :queue and priority = g.priority and fair is g.fair
        and due <= :now
      order by due, seq limit :each)) as jobs
  from (select priority, fair from g where fair is not null
        union all select column1, null from (values {priorities})) as g
)
where jobs <> '[]'
