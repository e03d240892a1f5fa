-- enqueue: take jobs in. A job whose id is there, or whose unique key another job has, changes nothing.
-- KEYS  1..n roots of queues
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 root of what is shared, '' on a cluster  4 number of jobs
--       then of each: meta, id, the packed rest (see include/intake)
-- gives position and id of the job that is there instead, for each job that was not taken in
-- include keys
-- include record
-- include places
-- include intake
local now, queues = clock(ARGV[1]), {}
for i, root in ipairs(KEYS) do queues[i] = sound(queue_of(root)) end
local registry = ARGV[3] ~= '' and shared_of(ARGV[3]) or nil
local refused = take_in(queues, registry, 5, tonumber(ARGV[4]), now)
ring(ARGV[2])
return refused
