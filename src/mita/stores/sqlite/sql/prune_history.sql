-- In: span, first (the start of the first minute or hour that is kept).
delete from _mita_history where span = :span and at < :first
