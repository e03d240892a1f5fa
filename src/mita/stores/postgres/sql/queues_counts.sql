-- counts: jobs by queue and state. Each part is answered by an index alone.
select queue, 'queued', count(*) from mita._job where state = 'queued' group by queue
union all
select queue, 'running', count(*) from mita._job where state = 'running' group by queue
union all
select queue, 'blocked', count(*) from mita._job where state = 'blocked' group by queue
union all
select queue, state, count(*) from mita._job where finished is not null group by queue, state
