-- count_runs: add counts to the current minute and to the current hour.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock
--       2… for each queue and task: their names (a packed list), the numbers (a packed list)
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
for _, one in ipairs({
  { s.history_minutes, MINUTE_MS, MINUTES_KEPT_MS }, { s.history_hours, HOUR_MS, HOURS_KEPT_MS },
}) do
  local name, span, kept = unpack(one)
  local key = name .. ':' .. plain(now - now % span)
  for at = 2, #ARGV, 2 do
    local numbers, found = cmsgpack.unpack(ARGV[at + 1]), call('HGET', key, ARGV[at])
    local ok, before = pcall(cmsgpack.unpack, found or '')
    if ok and type(before) == 'table' then
      for n, number in ipairs(numbers) do numbers[n] = number + (tonumber(before[n]) or 0) end
    end
    call('HSET', key, ARGV[at], cmsgpack.pack(numbers))
  end
  call('PEXPIRE', key, kept + 2 * span)
end
return 0
