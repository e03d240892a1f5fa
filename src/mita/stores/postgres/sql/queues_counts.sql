-- queues_counts: the number of jobs by queue and state. An index answers each part.
-- In: nothing.  Out: queue, state, number, how many of them have no due time.
select queue, {queued}, count(*), count(*) filter (where due = {latest}) from mita._job
where state = {queued} and fair is null group by queue
union all
select queue, {queued}, count(*), count(*) filter (where due = {latest}) from mita._job
where state = {queued} and fair is not null group by queue
union all
select queue, {running}, count(*), 0 from mita._job where state = {running} group by queue
union all
select queue, {blocked}, count(*), 0 from mita._job where state = {blocked} group by queue
union all
select queue, state, count(*), 0 from mita._job where finished is not null group by queue, state
