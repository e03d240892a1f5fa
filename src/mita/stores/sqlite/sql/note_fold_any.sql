-- Whether a timeline of these jobs may have become too long. Lines are numbered from 1 on, so a
-- look at the last number of each is enough.  In: seqs (a JSON list), keep.  Out: 1 or 0.
select exists (
  select 1 from json_each(:seqs) as v
  where (select max(e.n) from _mita_event as e where e.job = v.value) > :keep)
