-- Apply one firing if the repeat is still as the scheduler read it. Changes one row, or none if
-- another scheduler fired it, or it was edited or paused.
update _mita_repeat
set cursor = :next, count = count + :fired, last = coalesce(:last, last), state = :state,
    reason = :reason
where key = :key and cursor = :cursor and revision = :revision and state = {active}
