-- publish: send events. One script on one server keeps their order, on a cluster too.
-- KEYS  1 root of the namespace
-- ARGV  for each message: channel, message
for i = 1, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return 1
