-- fire: the compare-and-set of one firing.  Changes a row when it won, none when somebody else fired, edited or paused it.
update _mita_repeat
set cursor = :next, count = count + :fired, last = coalesce(:last, last), state = :state, reason = :reason
where key = :key and cursor = :cursor and revision = :revision and state = 'active'
