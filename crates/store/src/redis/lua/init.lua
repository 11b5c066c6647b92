-- Makes the queue's identity if it has none, and notices a server that was replaced. Answers the identity, and what
-- the server called itself that was last used.
--
-- ARGV: prefix, an identity for a new queue, the identity that is expected or nothing, the server's own, 1 if
-- a lost queue is to begin anew, 1 if the server was used before.

-- The number of the layout of all keys: a queue of another layout is not touched.
local FORM = '3'
-- What is counted of all jobs; the first is the last number given to a claim.
local G_FORM = '>ddddddddddddddd'
-- How far numbers of claims go on where another server took over: more than anybody has claimed that this one did not hear
-- of, a hundred thousand a second for hours. It fits fifty thousand times between the largest first number
-- and fourteen digits.
local UNHEARD = 1000000000

for i, key in ipairs(KEYS) do
  local is, wants = redis.call('TYPE', key).ok, (i <= 2 or i >= #KEYS - 1) and 'hash' or 'zset'
  if is ~= 'none' and is ~= wants then error('BADKEY ' .. key .. ' is a ' .. is, 0) end
end
-- Steps ring the bell after their last write and cannot tell that nobody hears it.
local rung = redis.pcall('PUBLISH', ARGV[1] .. 'bell', '')
if type(rung) == 'table' and rung.err then error('NOBELL', 0) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = KEYS[1]
local found = redis.call('HMGET', epoch, 'id', 'run', 'form', 'doubt', 'g')
local expected, run, anew = ARGV[3], ARGV[4], ARGV[5] == '1'
if not found[1] then
  if expected ~= '' and not anew then return { 'LOST', run } end
  -- Claims are numbered from the time on: a claim of a queue that was lost has no number of the new one, so it
  -- is fenced there. A number has six bytes, and is written with at most 14 digits. A server that was used before may
  -- have been emptied, which its functions outlive: then nobody knows what was used of limits a moment ago.
  local first = now % 50000000000000
  local g = struct.pack(G_FORM, first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
  redis.call('HSET', epoch, 'id', ARGV[2], 'form', FORM, 'origin', string.format('%.0f', now), 'run', run, 'g', g,
    'doubt', (anew or ARGV[6] == '1') and string.format('%.0f', now) or '0')
  return { ARGV[2], run }
end
if found[3] ~= FORM then error('OTHERFORM', 0) end
-- A full server lets a script write more that has written something, and this is something that needs no room.
redis.call('HDEL', epoch, '')
if expected ~= '' and found[1] ~= expected then
  if not anew then return { 'LOST', run } end
  -- Whoever made it did not know of the loss, nor what was used of limits before.
  if found[4] == '0' then redis.call('HSET', epoch, 'doubt', string.format('%.0f', now)) end
end
-- Another server than the last time: a copy that was promoted, or the same after a restart. What it knows
-- of limits may be older than what was used of them, by moments. Nor does it know the last claims: their numbers are not
-- given again, or who holds one would end somebody else's job.
if found[2] ~= run then
  local g = { struct.unpack(G_FORM, found[5]) }
  g[1] = g[1] + UNHEARD
  redis.call('HSET', epoch, 'run', run, 'moved', string.format('%.0f', now), 'g', struct.pack(G_FORM, unpack(g, 1, 15)))
end
return { found[1], found[2] or '' }
