-- pause_repeats: pause active repeats.  In: keys, reason.  Out: the keys that were paused.
update mita._repeat as r set state = {paused}, pause_reason = %(reason)s
from unnest(%(keys)s::text::text[]) as v (key) where r.key = v.key and r.state = {active}
returning r.key
