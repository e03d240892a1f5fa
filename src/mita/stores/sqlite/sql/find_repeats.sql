-- In: key.
select {repeat_columns} from _mita_repeat where key = :key
