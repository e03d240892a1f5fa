-- Pause or resume a repeat.  In: key, old, new.
update _mita_repeat set state = :new where key = :key and state = :old
