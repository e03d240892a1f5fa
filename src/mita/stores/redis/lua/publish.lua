-- publish: pass on what happens. By one script on one server, so that it comes in its order on a cluster too.
-- KEYS  1 root of what is shared
-- ARGV  1.. channel, message
for i = 1, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return 1
