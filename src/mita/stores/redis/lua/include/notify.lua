-- Wake-ups: a script collects topics, and publishes them in one message at its end. A topic is the
-- name of a queue, ASKED_TOPIC or REPEATS_TOPIC.

local topics = {}

local function notify(channel)
  if next(topics) then
    local names = {}
    for topic in pairs(topics) do names[#names + 1] = topic end
    call('PUBLISH', channel, table.concat(names, '\n'))
  end
end
