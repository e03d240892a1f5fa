-- What of flow control a queue uses, as a text of letters in its `meta`. Nearly all queues use
-- nothing of it, and pay for nothing. `scripting/constants.py` has the letters.

local function uses(q, letter)
  if not q.flow then q.flow = call('HGET', q.meta, 'flow') or '' end
  return q.flow ~= '' and q.flow:find(letter, 1, true)
end
