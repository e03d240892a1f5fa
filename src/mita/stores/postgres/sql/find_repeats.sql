-- find_repeats: repeats by key.  In: keys.  Out: the columns of a repeat.
select {repeat_columns} from mita._repeat where key = any (%(keys)s::text::text[])
