-- remove_repeats: delete repeats.  In: keys.  Out: the keys that were deleted.
delete from mita._repeat as r
using unnest(%(keys)s::text::text[]) as v (key) where r.key = v.key
returning r.key
