-- Gives ends of actions to whoever tells them.
--
-- ARGV: prefix, epoch, most, for how long nobody else gets them, then those that the caller tells already.
-- An end is scored by when it may be given out; whoever has it moves that on until it was told.

local most, until_then = tonumber(ARGV[3]), now + tonumber(ARGV[4])
for i = 5, #ARGV do call('ZADD', K.ripe, 'XX', until_then, ARGV[i]) end
local found = call('ZRANGEBYSCORE', K.ripe, '-inf', now, 'LIMIT', 0, most)
for _, name in ipairs(found) do call('ZADD', K.ripe, until_then, name) end
return found
