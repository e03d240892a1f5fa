-- enqueue_in_queues: `enqueue_queues` in a user's transaction.
-- In: ids of jobs.  Out: the id of the transaction.
with known as (
  insert into mita._queue (name)
  select distinct j.queue
  from unnest(%(ids)s::text::text[]) as v (id)
  join mita._job as j on j.id = v.id
  where j.queue not in (select q.name from mita._queue as q)
)
select pg_current_xact_id()::text
