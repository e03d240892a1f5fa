-- Take the keys from jobs that do not run.
delete from _mita_holder as h where not exists (
  select 1 from _mita_job as j where j.seq = h.job and j.state = {running})
