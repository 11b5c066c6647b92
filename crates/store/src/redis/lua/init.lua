-- Creates the queue's identity if it has none, and detects a replaced server. Returns the identity,
-- and the run id of the server that was used last.
--
-- ARGV: prefix, an identity for a new queue, the expected identity or nothing, the server's run id,
-- 1 if a lost queue may be created again, 1 if the server was used before.

-- Version of the key layout: a queue of another layout is not touched.
local FORM = '3'
-- Counters of all jobs; the first is the last claim number.
local G_FORM = '>ddddddddddddddd'
-- Advance of the claim numbers after a failover: more than all claims that this server may have
-- missed, a hundred thousand a second for hours. It fits fifty thousand times between the largest
-- first number and fourteen digits.
local MISSED_CLAIMS = 1000000000

for i, key in ipairs(KEYS) do
  local is, wants = redis.call('TYPE', key).ok, (i <= 2 or i >= #KEYS - 1) and 'hash' or 'zset'
  if is ~= 'none' and is ~= wants then error('BADKEY ' .. key .. ' is a ' .. is, 0) end
end
-- Steps notify after their last write and cannot notice a denied channel.
local published = redis.pcall('PUBLISH', ARGV[1] .. 'bell', '')
if type(published) == 'table' and published.err then error('NOCHANNEL', 0) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = KEYS[1]
local found = redis.call('HMGET', epoch, 'id', 'run', 'form', 'doubt', 'g')
local expected, run, may_create = ARGV[3], ARGV[4], ARGV[5] == '1'
if not found[1] then
  if expected ~= '' and not may_create then return { 'LOST', run } end
  -- Claims are numbered from the time on: a claim of a lost queue has no number of the new one, so
  -- it is fenced there. A number has six bytes, and is written with at most 14 digits. A server
  -- that was used before may have been emptied, which its functions survive: then the recent usage
  -- of limits is unknown.
  local first = now % 50000000000000
  local g = struct.pack(G_FORM, first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
  redis.call('HSET', epoch, 'id', ARGV[2], 'form', FORM, 'origin', string.format('%.0f', now), 'run', run, 'g', g,
    'doubt', (may_create or ARGV[6] == '1') and string.format('%.0f', now) or '0')
  return { ARGV[2], run }
end
if found[3] ~= FORM then error('OTHERFORM', 0) end
-- A full server allows further writes after the first, and this one needs no memory.
redis.call('HDEL', epoch, '')
if expected ~= '' and found[1] ~= expected then
  if not may_create then return { 'LOST', run } end
  -- Its creator did not know of the loss, nor of the earlier usage of limits.
  if found[4] == '0' then redis.call('HSET', epoch, 'doubt', string.format('%.0f', now)) end
end
-- Another server than the last time: a promoted replica, or a restart. Its usage of limits may miss
-- the last moments. It may also miss the last claims: their numbers are not reused, or the holder
-- of one would end another job.
if found[2] ~= run then
  local g = { struct.unpack(G_FORM, found[5]) }
  g[1] = g[1] + MISSED_CLAIMS
  redis.call('HSET', epoch, 'run', run, 'moved', string.format('%.0f', now), 'g', struct.pack(G_FORM, unpack(g, 1, 15)))
end
return { found[1], found[2] or '' }
