-- switch_repeats: pause or resume.  In: keys, old, new.  Out: the keys that were switched.
update mita._repeat as r set state = %(new)s
from unnest(%(keys)s::text::text[]) as v (key) where r.key = v.key and r.state = %(old)s
returning r.key
