-- In: now, limit.  Out: {repeat_columns}
select {repeat_columns} from _mita_repeat indexed by _mita_next_fire
where state = {active} and cursor <= :now order by cursor, key limit :limit
