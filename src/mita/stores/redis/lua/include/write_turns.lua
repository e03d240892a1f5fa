-- Writing what the turns of a claim have changed (see turns): few commands for all groups.

-- Groups whose turn has come leave `turns`; a group without jobs is forgotten by that.
local function write_virtual(q, t)
  if t.virtual == t.before then return end
  local priority, turns, last = t.priority, q.turns .. t.priority, plain(t.virtual)
  call('HSET', q.meta, 'virtual:' .. priority, last)
  q.virtual[priority] = t.virtual
  local over = call('ZRANGEBYSCORE', turns, '-inf', last)
  if #over == 0 then return end
  call('ZREMRANGEBYSCORE', turns, '-inf', last)
  for _, name in ipairs(over) do
    local group = t.names[name]
    if name ~= NO_GROUP and not (group and group.taken > 0) then
      local first, due = s.first(q, priority, name)
      local entry = first and s.entry(first, name)
      if entry and call('ZREM', q.groups_later .. priority, entry) == 1 then
        call('ZADD', q.groups_next .. priority, due, entry)
      end
    end
  end
end

local function add(lists, name, ...)
  local list = lists[name] or {}
  lists[name] = list
  for _, item in ipairs({ ... }) do list[#list + 1] = item end
end

local function run(command, lists)
  for key, list in pairs(lists) do call(command, key, unpack(list)) end
end

local function write_group(q, t, group, removed, added)
  local is_later = group.finished > t.virtual
  if is_later then add(added, q.turns .. t.priority, plain(group.finished), group.name) end
  if group.is_listed then
    call('LTRIM', ready_of(q, t.priority), group.taken, '-1')
  elseif not group.is_single then
    call('ZREMRANGEBYRANK', group.set, '0', group.taken - 1)
    add(removed, group.entries .. t.priority, s.entry(group.first, group.name))
    local entries = is_later and q.groups_later or q.groups_next
    if group.handle then
      add(added, entries .. t.priority, plain(group.due), s.entry(group.handle, group.name))
    end
  end
end

local function write_turns(q, t)
  local removed, added = {}, {}
  write_virtual(q, t)
  for _, group in ipairs(t.used) do write_group(q, t, group, removed, added) end
  run('ZREM', removed)
  run('ZADD', added)
end
