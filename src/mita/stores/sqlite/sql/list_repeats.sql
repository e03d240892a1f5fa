-- All repeats, by key.
select {repeat_columns} from _mita_repeat order by key
