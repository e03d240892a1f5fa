-- fold_away: the first line of each story that got too long, when the second has taken it in.  In: seqs (a JSON list), keep.
delete from _mita_event
where (job, n) in (
  select e.job, max(e.n) - :keep
  from _mita_event as e where e.job in (select value from json_each(:seqs)) group by e.job having count(*) > :keep
)
