-- report_repeat: count a job of a repeat that ended.
-- In: key, failed.  Out: its failures in a row; no row if there is no such repeat.
update mita._repeat
set failures = case when %(failed)s::boolean then failures + 1 else 0 end
where key = %(key)s
returning failures
