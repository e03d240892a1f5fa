-- pause_repeats: pause or resume repeats: those in state `old` get state `new`.
-- In: keys, old, new.  Out: the keys that were changed.
update mita._repeat as r set state = %(new)s
from unnest(%(keys)s::text::text[]) as v (key) where r.key = v.key and r.state = %(old)s
returning r.key
