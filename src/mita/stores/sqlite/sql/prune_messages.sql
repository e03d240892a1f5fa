-- Messages that every subscriber has read by now.  In: before.
delete from _mita_message where at < :before
