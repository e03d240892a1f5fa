-- In: value.
insert into _mita_meta (name, value) values ('clock', :value)
on conflict (name) do update set value = excluded.value
