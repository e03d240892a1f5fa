-- put_repeat_lock: read a repeat and lock it until the transaction ends.
-- In: key.  Out: the columns of a repeat.
select {repeat_columns} from mita._repeat where key = %(key)s for update
