-- Jobs have ended. Each unique key is free after the `unique_for` of its job, unless a throttle
-- keeps it.  In: seqs (a JSON list), now.
update _mita_unique as u set until = :now + j.unique_for
from json_each(:seqs) as v cross join _mita_job as j on j.seq = v.value
where u.queue = j.queue and u.key = j.uniq and u.id = j.id and u.until is null
