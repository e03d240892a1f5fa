-- Two lines of a timeline as one that counts them by kind, as `rules.timeline` does.
create function mita._folded(first json, second json) returns text
language sql immutable parallel safe as $$
  select json_build_array(
    second -> 0, 'folded',
    (counts || jsonb_build_object(
      second ->> 1, coalesce((counts ->> (second ->> 1))::int, 0) + 1))::text,
    null
  )::text
  from (select case first ->> 1 when 'folded' then (first ->> 2)::jsonb
               else jsonb_build_object(first ->> 1, 1) end as counts) as gone
$$;

-- A timeline with one more line. If it has 50, the two oldest become one.
create or replace function mita._noted(
  timeline text[], at bigint, kind text, note text, worker text) returns text[]
language sql immutable parallel safe as $$
  select case
    when coalesce(cardinality(timeline), 0) < 50 then coalesce(timeline, '{}')
    else mita._folded(timeline[1]::json, timeline[2]::json) || timeline[3:]
  end || json_build_array(at, kind, note, worker)::text
$$;
