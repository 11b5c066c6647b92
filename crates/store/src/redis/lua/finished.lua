-- Hands out ends of actions for notification.
--
-- ARGV: prefix, epoch, limit, lease of the ends, then the ends that the caller already has. The
-- score of an end is the instant of its next handout; its holder moves that forward until it is
-- notified.

local most, until_then = tonumber(ARGV[3]), now + tonumber(ARGV[4])
for i = 5, #ARGV do call('ZADD', K.ripe, 'XX', until_then, ARGV[i]) end
local found = call('ZRANGEBYSCORE', K.ripe, '-inf', now, 'LIMIT', 0, most)
for _, name in ipairs(found) do call('ZADD', K.ripe, until_then, name) end
return found
