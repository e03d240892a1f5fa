-- Count a job of a repeat that ended.  In: key, failed.
-- Out: its failures in a row; no row if there is no such repeat.
update _mita_repeat set failures = case when :failed then failures + 1 else 0 end
where key = :key returning failures
