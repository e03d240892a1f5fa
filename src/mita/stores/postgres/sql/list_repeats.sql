-- list_repeats: all repeats by key.  In: nothing.  Out: the columns of a repeat.
select {repeat_columns} from mita._repeat order by key
