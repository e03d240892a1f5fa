-- reap_free_further: take further keys from jobs that do not run.
-- In: nothing.  Out: queue and key of each.
delete from mita._key_holder as h
where not exists (select 1 from mita._job as j where j.id = h.id and j.state = {hidden_running})
returning h.queue, h.key
