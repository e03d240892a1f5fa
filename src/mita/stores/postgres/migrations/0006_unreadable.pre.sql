-- Lines of a timeline that cannot be read are counted as unreadable. They must not keep the next
-- line out.
create function mita._folded_lines(first text, second text) returns text
language plpgsql immutable parallel safe as $$
begin return mita._folded(first::json, second::json); exception when others then
  return json_build_array(0, 'folded', '{"unreadable": 2}', null)::text; end
$$;

create or replace function mita._noted(
  timeline text[], at bigint, kind text, note text, worker text) returns text[]
language sql immutable parallel safe as $$
  select case
    when coalesce(cardinality(timeline), 0) < 50 then coalesce(timeline, '{}')
    else mita._folded_lines(timeline[1], timeline[2]) || timeline[3:]
  end || json_build_array(at, kind, note, worker)::text
$$;
