-- Forgets what is too old, a bounded piece at a time. ARGV: prefix, epoch, how long a tenant without work
-- is remembered.

local PIECE = 500
local went = 0

local names = call('ZRANGEBYSCORE', K.names, '-inf', now, 'LIMIT', 0, PIECE)
if #names > 0 then went = went + call('ZREM', K.names, unpack(names)) end

for _, name in ipairs(call('ZRANGEBYSCORE', K.aend, '-inf', now, 'LIMIT', 0, PIECE)) do
  went = went + call('LLEN', P .. 'r:' .. name)
  call('UNLINK', P .. 'a:' .. name, P .. 'r:' .. name, P .. 'm:' .. name, P .. 'e:' .. name)
  call('ZREM', K.aend, name)
  call('ZREM', K.actions, name)
  call('ZREM', K.ripe, name)
  call('ZREM', K.adue, name)
  went = went + 1
end

local idle = call('ZRANGEBYSCORE', K.idle, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, PIECE)
for _, name in ipairs(idle) do
  call('HDEL', K.t, name)
  call('HDEL', K.rest, name)
  call('UNLINK', P .. 'k:' .. name)
  if call('HEXISTS', K.rules, name) == 0 then call('ZREM', K.who, name) end
  call('ZREM', K.idle, name)
  went = went + 1
end

-- Lanes that had no jobs and only waited. Those that have some again go when they have none.
for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'empty', '-inf', now, 'LIMIT', 0, PIECE)) do
  local lane = lane_of(name)
  call('ZREM', P .. 'empty', name)
  if meta_of(lane)[2] == 0 and not lane.fresh then
    lane.dirty = true
    save_lane(lane, {})
    went = went + 1
  end
end

local slots = call('ZRANGEBYSCORE', K.slots, '-inf', now - origin - 60000000, 'LIMIT', 0, PIECE)
if #slots > 0 then went = went + call('ZREM', K.slots, unpack(slots)) end

return went
