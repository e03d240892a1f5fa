-- Queued jobs whose due time is out of bounds: no claim would find them. There are none, so that the
-- index is empty, and a reap need not look at each priority.
create index _out_of_bounds on mita._job (id)
  where state = 'queued' and (due < 0 or due > 253402300799999);
