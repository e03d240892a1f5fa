-- In: id.  Out: state, queue, priority, due, seq, whether the queue has groups; or no row.
select j.state, j.queue, j.priority, j.due, j.seq, q.has_groups
from _mita_job as j left join _mita_queue as q on q.name = j.queue where j.id = :id
