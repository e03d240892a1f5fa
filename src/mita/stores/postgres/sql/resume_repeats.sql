-- resume_repeats: resume paused repeats, which count their failures from 0.
-- In: keys.  Out: the keys that were resumed.
update mita._repeat as r set state = {active}, pause_reason = '', failures = 0
from unnest(%(keys)s::text::text[]) as v (key) where r.key = v.key and r.state = {paused}
returning r.key
