-- fold_many: of each job's timeline only the newest lines stay.  In: seqs (a JSON list), keep.
delete from _mita_event
where (job, n) in (
  select e.job, e.n
  from (select e.job, max(e.n) as newest from _mita_event as e where e.job in (select value from json_each(:seqs)) group by e.job) as last
  join _mita_event as e on e.job = last.job and e.n <= last.newest - :keep
)
