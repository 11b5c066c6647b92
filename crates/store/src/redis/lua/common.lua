-- What every step begins with: the time, the queue's own identity, and the counts of all jobs.
--
-- On a server that knows functions everything here is made once, and what a call knows is set anew by
-- `run`. Elsewhere a step is a script, which makes all of it each time.
--
-- Time is the server's, in microseconds. A command that fails names its key, and the step ends before it
-- has written anything: what a step needs to know is read before the first write, and what it only writes to is
-- made room for.

local unpack, byte, sub, floor, max, min = unpack, string.byte, string.sub, math.floor, math.max, math.min
local pack, unpacked = struct.pack, struct.unpack

-- Of one call: its arguments, the queue's prefix and keys, the time, when the queue began, since when nothing
-- is known of its limits, and since when what is known may be a little old.
local ARGV, P, K, now, origin, doubt, moved
-- What a tenant is entitled to: [1] claim, [2] most in flight, [3] units and [4] window of its rate,
-- [5] paused, [6] weight, [7] priority. A claim of 0 is none of its own: then it is that of all others.
local RULE_FORM, FIRST_USUAL = '>ddddddd', { 4, 0, 0, 0, 0, 1, 2 }
local usual, usual_text
-- All jobs: [1] the last number given to a claim, [2] waiting, [3] of those delayed, [4] put off,
-- [5] claimed, [6] done, [7] dead, [8] failed, [9] cancelled, [10] throttles, [11] busy,
-- [12] the last place of a dead letter, [13] changes, [14] of the waiting, held by a pause, [15] tenants
-- that have work.
local g
-- What the call has read, by name, whether it woke anybody, and whether it has changed anything.
local lanes, tenants, actions, ring, wrote

local G_FORM = '>ddddddddddddddd'
local FACTOR = { 1, 4, 16 }
-- No command gets more arguments at once than this: Lua's stack ends at 8,000.
local CHUNK = 1000

local KEY_NAMES = { 'epoch', 't', 'sessions', 'names', 'lanes', 'idle', 'who', 'dead', 'actions', 'adue', 'aend',
  'ripe', 'slots', 'broken', 'rules', 'rest' }
-- Names of keys by prefix: a server keeps few queues.
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

-- Commands that change something.
local WRITES = {}
for name in string.gmatch('DEL HDEL HINCRBY HSET LPOP LPUSH LTRIM PEXPIRE RENAME RPOP RPUSH SADD SET SREM UNLINK ZADD ZPOPMIN '
  .. 'ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE LSET', '%u+') do
  WRITES[name] = true
end

-- How long somebody else's value is kept that was in the way.
local FOREIGN_KEPT = 30 * 86400000

-- Keeps the last of what was found to be no job of ours, for somebody to look at. It stays out of the way:
-- a step that stumbled over it each time would stop everybody behind it, and so would one that cannot keep it.
local MOST_BROKEN = 1000
local function set_aside(what)
  redis.pcall('ZADD', K.broken, now, what)
  redis.pcall('ZREMRANGEBYRANK', K.broken, 0, -MOST_BROKEN - 1)
  wrote = true
end

-- Makes room where somebody else's value is, and keeps that for whoever looks for it.
local function make_room(key)
  local aside = P .. 'foreign:' .. sub(key, #P + 1)
  redis.call('RENAME', key, aside)
  redis.call('PEXPIRE', aside, FOREIGN_KEPT)
  set_aside('foreign ' .. key)
end

-- A key that is not ours stops a step that has changed nothing yet. In the middle of one it is too late for that:
-- what was half done would be lost.
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

-- One step of the store. ARGV begins with the prefix and the identity that the caller knows.
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
    usual, usual_text = epoch[5] and { unpacked(RULE_FORM, epoch[5]) } or FIRST_USUAL, epoch[5]
  end
  lanes, tenants, actions, ring, wrote = {}, {}, {}, false, false
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

-- The fields of a hash, however many.
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

-- Wakes whoever waits for changes, after the last write: a server that does not let us must not leave a step half done.
local function ring_bell() redis.pcall('PUBLISH', P .. 'bell', '') end

local function save_counts()
  g[13] = g[13] + 1
  call('HSET', K.epoch, 'g', pack(G_FORM, unpack(g, 1, 15)))
end
