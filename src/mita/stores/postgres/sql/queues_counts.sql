-- queues_counts: the number of jobs by queue and state, but for queued jobs (`queues_waiting`). An
-- index answers each part.
-- In: nothing.  Out: queue, state, number.
select queue, {running}, count(*) from mita._job where state = {running} group by queue
union all
select queue, {blocked}, count(*) from mita._job where state = {blocked} group by queue
union all
select queue, state, count(*) from mita._job where finished is not null group by queue, state
