-- enqueue_fair_queues: remember the queues that have jobs of fair groups.  In: names.  Out: no row.
insert into mita._fair_queue (name)
select v.name from unnest(%(names)s::text::text[]) as v (name)
where v.name not in (select f.name from mita._fair_queue as f)
