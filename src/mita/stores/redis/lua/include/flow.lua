-- What of flow control a queue uses, as a text of letters in its `meta`. Nearly all queues use
-- nothing of it, and pay for nothing.

local LIMITED = 'q' -- the queue has a limit
local KEY_LIMITS = 'k' -- a key has a limit that an operator has set
local RATES = 'r' -- a job with a rate has started, or waits
local GROUPS = 'g' -- a job with `fair` was enqueued

local function uses(q, letter)
  if not q.flow then q.flow = call('HGET', q.meta, 'flow') or '' end
  return q.flow ~= '' and q.flow:find(letter, 1, true)
end
