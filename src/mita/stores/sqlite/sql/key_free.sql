-- A job does not run any more, and has no keys.  In: queue, keys (a JSON list), job.
delete from _mita_holder
where queue = :queue and key in (select value from json_each(:keys)) and job = :job
