-- Delete the first line of each timeline that is too long, after `note_fold` has counted it.
-- In: seqs (a JSON list), keep.
delete from _mita_event
where (job, n) in (
  select e.job, max(e.n) - :keep
  from _mita_event as e where e.job in (select value from json_each(:seqs))
  group by e.job having count(*) > :keep
)
