-- pause: In: names.
insert into mita._queue as q (name, paused)
select distinct v.name, {now} from unnest(%(names)s::text::text[]) as v (name)
on conflict (name) do update set paused = excluded.paused where q.paused is null
