-- Jobs whose lease has expired, the earliest first, as ONE JSON text: the rows of
-- `claim_candidates`, each with its worker.  In: now, limit.
select json_group_array(json_array({claim_row}, worker))
from (
  select * from _mita_job indexed by _mita_leased
  where state = {running} and lease_until <= :now order by lease_until, seq limit :limit
)
