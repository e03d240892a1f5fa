-- A timeline with one more line. The line of a failed run also has the error and the time of its
-- start.
create function mita._noted(
  timeline text[], at bigint, kind text, note text, worker text, error text, started bigint)
returns text[]
language sql immutable parallel safe as $$
  select case when error = '' then mita._noted(timeline, at, kind, note, worker)
  else (select told[:cardinality(told) - 1]
               || json_build_array(at, kind, note, worker, error, started)::text
        from (select mita._noted(timeline, at, kind, '', null) as told) as longer) end
$$;
