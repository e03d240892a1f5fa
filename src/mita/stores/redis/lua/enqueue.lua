-- enqueue: take jobs in. A job whose id is there, or whose unique key another job has, changes nothing.
-- KEYS  1..n roots of queues
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 root of what is shared, '' on a cluster
--       4 name of the store that calls  5 number of this call  6 '1' when all jobs are fresh
--       7 how many arguments say the kinds, 0 when all jobs are plain and of one queue, then those and the items (see
--       include/insert_jobs)
-- gives {position, id, …} of the jobs that were not taken in and those that are there instead, and 1 if a queue is new;
--       0 when there is neither
-- include insert_one_plain
-- include repeated_calls
local now, calls, number, fresh = clock(ARGV[1]), KEYS[1] .. CALLS .. ARGV[4], ARGV[5], ARGV[6] == '1'
local before = done_before(calls, number)
if before then return { before, 0 } end
-- include keys
-- include record
-- include state_indexes
-- include insert_jobs
local queues = {}
for i, root in ipairs(KEYS) do queues[i] = queue_of(root) end
local registry = ARGV[3] ~= '' and shared_of(ARGV[3]) or nil
local last = 7 + tonumber(ARGV[7])
local kinds = { unpack(ARGV, 8, last) }
if last == 7 then kinds = { (#ARGV - 7) / 2, '' } end
kinds.first, kinds.last = 1, #kinds
ARGV.first = last + 1
local refused = take_in(queues, registry, kinds, ARGV, now, fresh)
remember_call(calls, number, refused)
ring(ARGV[2])
local new = 0
for _, q in ipairs(queues) do new = q.new and 1 or new end
return { refused, new }
