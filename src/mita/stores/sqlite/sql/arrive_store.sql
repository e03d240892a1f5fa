-- In: {rows} of seq, name, value; the same row may be there several times.
insert into _mita_once_value (job, name, value) values {rows} on conflict do nothing
