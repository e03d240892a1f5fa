-- In: id.  Out: state, due, seq, queue, whether the queue has groups; or no row.
select j.state, j.due, j.seq, j.queue, q.has_groups
from _mita_job as j left join _mita_queue as q on q.name = j.queue where j.id = :id
