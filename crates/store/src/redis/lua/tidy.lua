-- Forgets what is too old, a bounded piece at a time. ARGV: prefix, epoch, how long a tenant without work
-- is remembered.

local PIECE = 500
local went = 0

local names = call('ZRANGEBYSCORE', k_names, '-inf', now, 'LIMIT', 0, PIECE)
if #names > 0 then went = went + call('ZREM', k_names, unpack(names)) end

for _, name in ipairs(call('ZRANGEBYSCORE', k_aend, '-inf', now, 'LIMIT', 0, PIECE)) do
  call('UNLINK', P .. 'a:' .. name, P .. 'r:' .. name, P .. 'm:' .. name)
  call('ZREM', k_aend, name)
  call('ZREM', k_actions, name)
  call('ZREM', k_ripe, name)
  call('ZREM', k_adue, name)
  went = went + 1
end

local idle = call('ZRANGEBYSCORE', k_idle, '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, PIECE)
for _, name in ipairs(idle) do
  call('HDEL', k_t, name)
  call('UNLINK', P .. 'k:' .. name)
  if call('HEXISTS', k_rules, name) == 0 then call('ZREM', k_who, name) end
  call('ZREM', k_idle, name)
  went = went + 1
end
went = went + call('ZREMRANGEBYSCORE', k_slots, '-inf', now - origin - 60000000)
return went
