-- steps_done: the migrations that were run.
select name from mita._step
