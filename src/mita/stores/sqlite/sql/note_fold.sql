-- In each timeline that has become too long, the second line takes in the first and counts both by
-- kind, as in `rules.timeline`. `note_fold_delete` then deletes the first.
-- In: seqs (a JSON list), keep.
with long as (
  select e.job, max(e.n) - :keep as n
  from _mita_event as e where e.job in (select value from json_each(:seqs))
  group by e.job having count(*) > :keep
), pair as (
  select second.job, second.n,
         case typeof(second.kind) when 'text' then second.kind else {kind_unreadable} end as kind,
         case when first.kind = {kind_folded} and json_valid(first.note) then first.note
              when typeof(first.kind) = 'text' then json_object(first.kind, 1)
              else json_object({kind_unreadable}, 1) end as counts
  from long
  join _mita_event as first on first.job = long.job and first.n = long.n
  join _mita_event as second on second.job = long.job and second.n = long.n + 1
)
update _mita_event as e
set (kind, note, worker, error, started) = (
  select {kind_folded},
         json_set(p.counts, '$.' || p.kind,
                  coalesce(json_extract(p.counts, '$.' || p.kind), 0) + 1),
         null, '', null
  from pair as p where p.job = e.job and p.n = e.n
)
where (e.job, e.n) in (select job, n from pair)
