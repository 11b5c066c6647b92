-- Start of every step: the time, the queue's identity, and the counts of all jobs.
--
-- On a server with functions everything here is set up once, and `run` sets the state of a call.
-- Elsewhere a step is a script, which sets all of it up each time.
--
-- Time is the server's, in microseconds. A failing command names its key, and the step ends before
-- it has written anything: a step reads all it needs before its first write, and moves foreign
-- values out of the keys it only writes.

local unpack, byte, sub, floor, max, min = unpack, string.byte, string.sub, math.floor, math.max, math.min
local pack, unpacked = struct.pack, struct.unpack

-- State of one call: its arguments, the queue's prefix and keys, the time, the queue's creation,
-- since when the usage of limits is unknown, and since when it may be slightly old.
local ARGV, P, K, now, origin, doubt, moved
-- Rule of a tenant: [1] share, [2] max in flight, [3] units and [4] window of its rate, [5] paused,
-- [6] weight, [7] priority. A share of 0 means the default rule.
local RULE_FORM, FIRST_DEFAULT = '>ddddddd', { 4, 0, 0, 0, 0, 1, 2 }
local usual, usual_text
-- All jobs: [1] the last claim number, [2] waiting, [3] of those delayed, [4] deferred, [5]
-- claimed, [6] done, [7] dead, [8] failed, [9] cancelled, [10] throttles, [11] busy, [12] the last
-- place of a dead letter, [13] changes, [14] of the waiting, held by a pause, [15] tenants with
-- work.
local g
-- Data read by the call, by name; set if it must notify waiters; set if it has changed anything.
local lanes, tenants, actions, must_notify, wrote
-- Counts of starts: their functions, and those that the call opened.
local starts = {}

local G_FORM = '>ddddddddddddddd'
local FACTOR = { 1, 4, 16 }
-- The maximum of arguments of one command: Lua's stack ends at 8,000.
local CHUNK = 1000
-- Records of a list that are read to find one, and the most of them.
local SAMPLED, MOST_SAMPLED = 64, 1024

local KEY_NAMES = { 'epoch', 't', 'sessions', 'names', 'lanes', 'idle', 'who', 'dead', 'actions', 'adue', 'aend',
  'ripe', 'broken', 'rules', 'rest' }
-- Names of keys by prefix: a server has few queues.
local queues = {}

local function keys_of(prefix)
  local keys = queues[prefix]
  if not keys then
    keys = {}
    for _, name in ipairs(KEY_NAMES) do keys[name] = prefix .. name end
    queues[prefix] = keys
  end
  return keys
end

-- Commands that write.
local WRITES = {}
for name in string.gmatch('DEL HDEL HINCRBY HSET LPOP LPUSH LTRIM PEXPIRE RENAME RPOP RPUSH SADD SET SREM UNLINK ZADD ZPOPMIN '
  .. 'ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE LSET', '%u+') do
  WRITES[name] = true
end

-- Retention of a foreign value that was moved away.
local FOREIGN_KEPT = 30 * 86400000

-- Stores the last malformed entries for an operator. They are moved away: a step that failed at one
-- each time would block all jobs behind it, and so would a step that cannot store it.
local MAX_BROKEN = 1000
local function set_aside(what)
  redis.pcall('ZADD', K.broken, now, what)
  redis.pcall('ZREMRANGEBYRANK', K.broken, 0, -MAX_BROKEN - 1)
  wrote = true
end

-- Moves a foreign value out of the key, and keeps it for an operator.
local function make_room(key)
  local aside = P .. 'foreign:' .. sub(key, #P + 1)
  redis.call('RENAME', key, aside)
  redis.call('PEXPIRE', aside, FOREIGN_KEPT)
  set_aside('foreign ' .. key)
end

-- A foreign key stops a step that has changed nothing yet. After the first write it is moved away:
-- stopping would lose the half-done step.
local function call(name, key, ...)
  local answer = redis.pcall(name, key, ...)
  if type(answer) == 'table' and answer.err then
    if not wrote or sub(answer.err, 1, 9) ~= 'WRONGTYPE' then
      error('BADKEY ' .. key .. ' ' .. answer.err, 0)
    end
    make_room(key)
    answer = redis.call(name, key, ...)
  end
  if WRITES[name] then wrote = true end
  return answer
end

-- Runs one step of the store. ARGV begins with the prefix and the identity that the caller knows.
local function run(step, arguments)
  ARGV, P = arguments, arguments[1]
  K = keys_of(P)
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  local epoch = call('HMGET', K.epoch, 'id', 'origin', 'doubt', 'g', 'usual', 'moved')
  if epoch[1] ~= ARGV[2] then error('LOSTQUEUE', 0) end
  origin, doubt, moved = tonumber(epoch[2]), tonumber(epoch[3]), tonumber(epoch[6] or 0)
  g = { unpacked(G_FORM, epoch[4]) }
  if not usual or usual_text ~= epoch[5] then
    usual, usual_text = epoch[5] and { unpacked(RULE_FORM, epoch[5]) } or FIRST_DEFAULT, epoch[5]
  end
  lanes, tenants, actions, must_notify, wrote, starts.opened = {}, {}, {}, false, false, {}
  return step()
end

local function each_chunk(list, size, run)
  for first = 1, #list, size do
    run(first, min(first + size - 1, #list))
  end
end

local function write_all(name, key, list)
  for first = 1, #list, CHUNK do
    call(name, key, unpack(list, first, min(first + CHUNK - 1, #list)))
  end
end

-- Reads any number of fields of a hash.
local function read_all(key, fields)
  local many = #fields
  if many <= CHUNK then return call('HMGET', key, unpack(fields)) end
  local all = {}
  for first = 1, many, CHUNK do
    local some = call('HMGET', key, unpack(fields, first, min(first + CHUNK - 1, many)))
    for i = 1, #some do all[first + i - 1] = some[i] end
  end
  return all
end

-- Notifies waiters, after the last write: a server that denies it must not leave a step half done.
local function notify() redis.pcall('PUBLISH', P .. 'bell', '') end

local function save_counts()
  g[13] = g[13] + 1
  call('HSET', K.epoch, 'g', pack(G_FORM, unpack(g, 1, 15)))
end
