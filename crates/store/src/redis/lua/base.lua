-- What every script begins with: the time, the queue's own identity, and the counts of all jobs.
--
-- Time is the server's, in microseconds. A command that fails names its key, and the script ends
-- before it has written anything: whatever can fail is read before the first write.

local unpack, byte, sub, floor, max, min = unpack, string.byte, string.sub, math.floor, math.max, math.min
local pack, unpacked = struct.pack, struct.unpack

local function call(name, key, ...)
  local answer = redis.pcall(name, key, ...)
  if type(answer) == 'table' and answer.err then
    error('BADKEY ' .. key .. ' ' .. answer.err, 0)
  end
  return answer
end

local P = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = call('HMGET', K.epoch, 'id', 'origin', 'doubt', 'g')
if epoch[1] ~= ARGV[2] then error('LOSTQUEUE', 0) end
local origin = tonumber(epoch[2])

-- All jobs: [1] the last number given to a claim, [2] waiting, [3] of those delayed, [4] put off,
-- [5] claimed, [6] done, [7] dead, [8] failed, [9] cancelled, [10] throttles, [11] busy,
-- [12] the last place of a dead letter, [13] changes, [14] of the waiting, held by a pause, [15] tenants
-- that have work.
local G_FORM = '>ddddddddddddddd'
local g = { unpacked(G_FORM, epoch[4]) }

local FACTOR = { 1, 4, 16 }
-- No command gets more arguments at once than this: Lua's stack ends at 8,000.
local CHUNK = 1000

local function each_chunk(list, size, run)
  for first = 1, #list, size do
    run(first, min(first + size - 1, #list))
  end
end

local function write_all(name, key, list)
  each_chunk(list, CHUNK, function(first, last) call(name, key, unpack(list, first, last)) end)
end
