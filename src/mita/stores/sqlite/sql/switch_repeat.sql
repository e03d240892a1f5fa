-- switch_repeat: pause or resume.  In: key, old, new.
update _mita_repeat set state = :new where key = :key and state = :old
