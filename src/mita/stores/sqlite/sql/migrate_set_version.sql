-- In: version.
insert into _mita_meta (name, value) values ('schema', :version)
on conflict (name) do update set value = excluded.value
