-- step_done: remember a migration.  In: name.
insert into mita._step (name, at) values (%(name)s, {now})
