-- messages_forget: what everybody has heard by now.  In: before.
delete from _mita_told where at < :before
