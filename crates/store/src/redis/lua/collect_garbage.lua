-- Removes old data, a bounded piece at a time. ARGV: prefix, epoch, retention of a tenant without
-- work.

local PIECE = 500
local went = 0

local names = call('ZRANGEBYSCORE', K.names, '-inf', now, 'LIMIT', 0, PIECE)
if #names > 0 then went = went + call('ZREM', K.names, unpack(names)) end

local function forget_action(name)
  went = went + call('LLEN', P .. 'r:' .. name)
  call('UNLINK', P .. 'a:' .. name, P .. 'r:' .. name, P .. 'm:' .. name, P .. 'e:' .. name)
  call('ZREM', K.aend, name)
  call('ZREM', K.actions, name)
  call('ZREM', K.ripe, name)
  call('ZREM', K.adue, name)
  went = went + 1
end

-- An action with open jobs is checked again later: without it, their owner and places would be
-- unknown.
local LATER = 60000000
for _, name in ipairs(call('ZRANGEBYSCORE', K.aend, '-inf', now, 'LIMIT', 0, PIECE)) do
  local action = action_of(name)
  if action and action.q + action.fl > 0 then
    call('ZADD', K.aend, now + LATER, name)
  else
    forget_action(name)
  end
end

local idle = call('ZRANGEBYSCORE', K.idle, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, PIECE)
for _, name in ipairs(idle) do
  call('HDEL', K.t, name)
  call('HDEL', K.rest, name)
  call('UNLINK', P .. 'k:' .. name, P .. 'c:' .. name)
  if call('HEXISTS', K.rules, name) == 0 then call('ZREM', K.who, name) end
  call('ZREM', K.idle, name)
  went = went + 1
end

-- Lanes that had no jobs and only waited. A lane that has jobs again goes when it has none.
for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'empty', '-inf', now, 'LIMIT', 0, PIECE)) do
  local lane = lane_of(name)
  call('ZREM', P .. 'empty', name)
  if meta_of(lane)[2] == 0 and not lane.fresh then
    lane.dirty = true
    save_lane(lane, {})
    went = went + 1
  end
end

return went
