-- The tables get the names that the code uses.
alter table _mita_memo rename to _mita_once_value;
alter table _mita_ear rename to _mita_subscription;
alter table _mita_told rename to _mita_message;
