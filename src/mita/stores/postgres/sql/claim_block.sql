-- block: the jobs found their resource keys taken.  In: ids.
update mita._job as j
set state = 'blocked', busy = least(j.busy, 999999999) + 1,
    timeline = mita._noted(j.timeline, clock.now, 'blocked', j.resource || ' is taken', null)
from unnest(%(ids)s::text::text[]) as v (id), (select {now} as now) as clock
where j.id = v.id and j.state = {queued}
