-- enqueue: insert jobs. A job whose id exists, or whose unique key is taken, changes nothing.
-- KEYS  1..n roots of queues
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
--       3 root of the namespace, '' on a cluster  4 name of the calling store
--       5 number of this call  6 '1' when all ids are fresh
--       7 number of arguments for the kinds, 0 when all jobs are plain and of one queue; then the
--       kinds and the items (see include/insert_jobs)
-- Returns {position, id, …} of the jobs that were not inserted, each with the id of the job that is
--       there instead, and 1 if a queue is new; or 0 when there is neither
-- include insert_one_plain
-- include repeated_calls
local now, number, fresh = clock(ARGV[1]), ARGV[5], ARGV[6] == '1'
local calls = KEYS[1] .. CALLS .. ARGV[4]
local before = answer_before(calls, number)
if before then return { before, 0 } end
-- include keys
-- include insert_jobs
local queues = {}
for i, root in ipairs(KEYS) do queues[i] = queue_of(root) end
local namespace = ARGV[3] ~= '' and namespace_of(ARGV[3]) or nil
local last = 7 + tonumber(ARGV[7])
local kinds = { unpack(ARGV, 8, last) }
if last == 7 then kinds = { (#ARGV - 7) / 2, '' } end
ARGV.first = last + 1
local refused = insert_jobs(queues, namespace, kinds, ARGV, now, fresh)
remember_call(calls, number, refused)
enter_wakes_of(queues, now)
notify(ARGV[2])
local new = 0
for _, q in ipairs(queues) do new = q.first_job and 1 or new end
return { refused, new }
