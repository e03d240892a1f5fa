-- doctor_migrations: In: nothing.  Out: the names of the migrations that were run.
select name from mita._step
