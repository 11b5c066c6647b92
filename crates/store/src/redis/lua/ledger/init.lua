-- Creates the identity of a ledger if it has none, and detects a replaced server. Returns the identity.
--
-- KEYS: identity. ARGV: an identity for a new ledger, the one that the caller knows or nothing, the server's
-- run id, 1 if the server was used before, and the seconds since its start.

-- Processes that knew the data of an earlier life of this server come back within this time, and say so.
local YOUNG = 2

local time = redis.call('TIME')
local server_now = time[1] * 1000000 + time[2]
local now = string.format('%.0f', server_now)
local found = redis.call('HMGET', KEYS[1], 'id', 'run', 'origin', 'doubt')
if not found[1] then
  -- The caller knew a ledger, or the server knows our scripts: the arrivals of the last window are unknown.
  local is_lost = ARGV[2] ~= '' or ARGV[4] == '1'
  local opens = string.format('%.0f', server_now + math.max(0, YOUNG - ARGV[5]) * 1000000)
  redis.call(
    'HSET', KEYS[1], 'id', ARGV[1], 'origin', now, 'run', ARGV[3], 'doubt', is_lost and now or '0', 'moved', '0',
    'opens', opens
  )
  return ARGV[1]
end
-- A promoted replica or a restart may miss the last moments.
if found[2] ~= ARGV[3] then redis.call('HSET', KEYS[1], 'run', ARGV[3], 'moved', now) end
-- The ledger was created by a process that knew of no loss: arrivals before that are unknown.
if ARGV[2] ~= '' and ARGV[2] ~= found[1] and found[4] == '0' then
  redis.call('HSET', KEYS[1], 'doubt', found[3])
end
return found[1]
