-- Jobs, their actions, and their ends.
--
-- A record is what the submitter's side made of a job, and stays as it is while nothing happens to the
-- job; see the layout in `record.rs`. An entry is a record with its lane, its tenant and its index in
-- the list that it was taken from, for when it has left the list.

-- Of an entry: class, lengths of lane and tenant; after both, its index, as a number and what to add to it,
-- and the number of the first claim. Of jobs that are taken together all but the rest of it is the same.
local ENTRY_HEAD, ENTRY_PLACE = '>BBB', '>I6HI6'
local PLACE_SIZE = 14
-- The field of a claim in its session.
local CLAIM_FORM, CLAIM_SIZE = '>I6', 6
-- Ends the name of a session under which lies what another did not hear of. No name holds a space.
local NOT_BEGUN = ' -'
-- Added to the class of an entry that was put off.
local PUT_OFF = 8

local HAS_ACTION, HAS_DEADLINE, HAS_COST, HAS_NAME, HAS_COUNTS, HAS_HISTORY = 1, 2, 4, 8, 16, 32
-- What is kept of a job's failures: the last.
local MOST_MISHAPS = 10

local function has(flags, bit) return flags % (2 * bit) >= bit end

local function entry_of(lane, tenant, job)
  return pack(ENTRY_HEAD, job.class, #lane, #tenant) .. lane .. tenant .. pack(ENTRY_PLACE, job.index, 0, job.first)
    .. job.record
end

-- Of whom an entry is, and where its record begins.
local function owner_of(entry)
  local lane_len, tenant_len = byte(entry, 2, 3)
  local from = 4 + lane_len
  return sub(entry, from, from + tenant_len - 1), from + tenant_len + PLACE_SIZE
end

local function parse_entry(entry)
  local class, lane_len = byte(entry, 1, 2)
  local tenant, record_at = owner_of(entry)
  local index, more, first = unpacked(ENTRY_PLACE, entry, record_at - PLACE_SIZE)
  return {
    class = class % PUT_OFF, put_off = class >= PUT_OFF, index = index + more, first = first,
    lane = sub(entry, 4, 3 + lane_len), tenant = tenant, record = sub(entry, record_at),
  }
end

local function parse_record(record)
  local flags, retries, len = unpacked('>BHB', record)
  local job = { flags = flags, max_retries = retries, id = sub(record, 5, 4 + len), cost = 1,
    attempts = 0, retries = 0, throttles = 0, recoveries = 0, mishaps = 0, history = '' }
  local at = 5 + len
  if has(flags, HAS_ACTION) then
    local size = byte(record, at)
    job.action = sub(record, at + 1, at + size)
    at = at + 1 + size
  end
  if has(flags, HAS_DEADLINE) then
    job.deadline = unpacked('>I7', record, at)
    at = at + 7
  end
  if has(flags, HAS_COST) then
    job.cost = unpacked('>I7', record, at)
    at = at + 7
  end
  if has(flags, HAS_NAME) then
    job.remember = unpacked('>I7', record, at)
    at = at + 7
  end
  if has(flags, HAS_COUNTS) then
    job.attempts, job.retries, job.throttles, job.recoveries = unpacked('>I4I4I4I4', record, at)
    at = at + 16
  end
  if has(flags, HAS_HISTORY) then
    job.mishaps = byte(record, at)
    local from = at
    at = at + 1
    for _ = 1, job.mishaps do at = at + 9 + unpacked('>H', record, at + 7) end
    job.history = sub(record, from + 1, at - 1)
  end
  job.payload_at = at
  return job
end

-- The job of a record, or nothing where something else was put.
local function sound_record(record)
  local well, job = pcall(parse_record, record)
  if well and #job.id > 0 and job.payload_at <= #record + 1 then return job end
end

-- An entry and its job, or nothing where something else was put.
local function sound_entry(packed)
  local well, entry = pcall(parse_entry, packed)
  local job = well and #entry.tenant > 0 and #entry.lane > 0 and sound_record(entry.record)
  if job then return entry, job end
end

-- How far a job's turn moves its tenant on, before its claim is reckoned with. Costs above the bound are as good as each
-- other: places would leave the numbers that doubles are exact for with every job.
local MOST_CHARGE = 2 ^ 24
local function charge_of(cost) return max(1, min(cost, MOST_CHARGE)) end

local function flag_of(job, bit, present)
  if has(job.flags, bit) == present then return end
  job.flags = job.flags + (present and bit or -bit)
end

-- The record of a job that something happened to.
local function write_record(job, record)
  flag_of(job, HAS_COUNTS, job.attempts + job.retries + job.throttles + job.recoveries > 0)
  flag_of(job, HAS_HISTORY, job.mishaps > 0)
  local parts = { pack('>BHB', job.flags, job.max_retries, #job.id), job.id }
  if job.action then parts[#parts + 1] = pack('>B', #job.action) .. job.action end
  if job.deadline then parts[#parts + 1] = pack('>I7', job.deadline) end
  if has(job.flags, HAS_COST) then parts[#parts + 1] = pack('>I7', job.cost) end
  if job.remember then parts[#parts + 1] = pack('>I7', job.remember) end
  if has(job.flags, HAS_COUNTS) then
    parts[#parts + 1] = pack('>I4I4I4I4', job.attempts, job.retries, job.throttles, job.recoveries)
  end
  if job.mishaps > 0 then parts[#parts + 1] = pack('>B', job.mishaps) .. job.history end
  parts[#parts + 1] = sub(record, job.payload_at)
  return table.concat(parts)
end

local function add_mishap(job, words)
  if job.mishaps >= MOST_MISHAPS then
    job.history = sub(job.history, 10 + unpacked('>H', job.history, 8))
    job.mishaps = job.mishaps - 1
  end
  job.history = job.history .. pack('>I7H', now, #words) .. words
  job.mishaps = job.mishaps + 1
end

-- Actions: what is said of one, then what is counted.
local ACTION = { 'st', 'closed', 'paused', 'opened', 'started', 'ended', 'timeout', 'keep', 'floor', 'told',
  'q', 'nr', 'dl', 'hd', 'fl', 'dn', 'dd', 'fa', 'ca', 'th', 'bu' }
local COMPLETED, FAILED, CANCELLED = 5, 6, 7

local function action_of(name)
  local action = actions[name]
  if action ~= nil then return action end
  local found = call('HMGET', P .. 'a:' .. name, unpack(ACTION))
  if found[1] then
    action = { name = name, key = P .. 'a:' .. name }
    for i, field in ipairs(ACTION) do action[field] = tonumber(found[i]) or 0 end
  else
    action = false
  end
  actions[name] = action
  return action
end

-- Opens an action under a name that is free, or was that of one that is over.
local function open_action(name)
  call('DEL', P .. 'r:' .. name, P .. 'a:' .. name, P .. 'e:' .. name)
  local action = { name = name, key = P .. 'a:' .. name }
  for _, field in ipairs(ACTION) do action[field] = 0 end
  action.opened, action.floor = now, g[1]
  actions[name] = action
  call('ZADD', K.actions, 0, name)
  call('ZREM', K.aend, name)
  call('ZREM', K.ripe, name)
  return action
end

-- Says what an action is to be. A note that is there begins with a sign, since it may be empty.
local function specify(action, timeout, keep, note)
  action.timeout, action.keep, action.dirty = tonumber(timeout), tonumber(keep), true
  call('ZADD', K.adue, action.opened + action.timeout, action.name)
  if note == '' then
    call('HDEL', action.key, 'note')
  else
    call('HSET', action.key, 'note', sub(note, 2))
  end
end

local function count(action, field, by)
  action[field] = max(0, action[field] + by)
  action.dirty = true
end

local function is_over(action) return action.st >= COMPLETED end

-- Whether nothing of it is open and nothing comes any more.
local function is_settled(action)
  return (action.closed == 1 or is_over(action)) and action.q + action.fl == 0
end

-- A name is not used again before all jobs have ended that it had.
local function be_clean(name)
  if call('EXISTS', P .. 'm:' .. name) == 1 then error('CLEANING', 0) end
end

local function save_actions()
  for name, action in pairs(actions) do
    if action and action.dirty then
      local settled = is_settled(action)
      if action.st == 0 then action.ended = settled and (action.ended > 0 and action.ended or now) or 0 end
      local set = {}
      for _, field in ipairs(ACTION) do
        set[#set + 1] = field
        set[#set + 1] = action[field]
      end
      call('HSET', action.key, unpack(set))
      if settled and action.told == 0 and action.st ~= COMPLETED then
        -- Whoever tells it has moved its time on.
        call('ZADD', K.ripe, 'NX', now, name)
      elseif action.st == 0 then
        call('ZREM', K.ripe, name)
      end
    end
  end
end

-- The action of a job that is under way, if it is still the same: a name may be used again.
local function action_since(name, claim)
  local action = name and action_of(name)
  if action and claim > action.floor then return action end
end

-- A job goes on without an action.
local function leave_action(job)
  job.action = nil
  flag_of(job, HAS_ACTION, false)
end

local DONE, ENDED_FAILED, EXPIRED, ENDED_CANCELLED = 1, 2, 3, 4
-- Added to how a job ended, if words about it stand before what is kept.
local SPOKEN = 16

local function tell(action, ended, job, tenant, result, words)
  local status, expiry, said, body = 0, 0, '', ''
  if words then
    ended, said = ended + SPOKEN, pack('>H', #words) .. words
  end
  if result and result ~= '' then
    local keep
    status, keep = unpacked('>HI7', result)
    expiry, body = now + keep, sub(result, 10)
  end
  local line = pack('>BI7I4I4HI7BB', ended, now, job.attempts, job.throttles, status, expiry, #job.id, #tenant)
  return call('RPUSH', P .. 'r:' .. action.name, line .. job.id .. tenant .. said .. body)
end

local function forget_name(job)
  if job.remember then call('ZADD', K.names, now + job.remember, job.id) end
end

-- A job that waited is over without having begun.
local function drop(job, entry, ended)
  local tenant = tenant_of(entry.tenant)
  tenant[10] = tenant[10] + 1
  g[9] = g[9] + 1
  count_waiting(lane_of(entry.lane), -1)
  local action = job.action and action_of(job.action)
  if action then
    count(action, 'q', -1)
    count(action, 'ca', 1)
    tell(action, ended, job, entry.tenant)
  end
  forget_name(job)
end

-- Buries a job, whose outcome stands at this place of its action's, if it has one.
local function bury(job, entry, words, told_at)
  if words then add_mishap(job, words) end
  g[12] = g[12] + 1
  if told_at then call('HSET', P .. 'e:' .. job.action, g[12], told_at) end
  g[7] = g[7] + 1
  entry.record = write_record(job, entry.record)
  call('ZADD', K.dead, g[12], pack('>I7', now) .. entry_of(entry.lane, entry.tenant, entry))
  forget_name(job)
end

-- A job that is claimed waits for an instant.
local function delay(entry, due, put_off)
  local class = entry.class
  entry.class = class + (put_off and PUT_OFF or 0)
  local lane = lane_of(entry.lane)
  local packed = entry_of(entry.lane, entry.tenant, entry)
  entry.class = class
  call('ZADD', lane.delayed, due, packed)
  if put_off then call('ZADD', P .. 'o:' .. entry.tenant, due, packed) end
  wake_at(lane, due)
end

-- Jobs whose time has come, or that are let go before it, stand in line again.
local function undelay(packed, entry)
  local lane, tenant = lane_of(entry.lane), tenant_of(entry.tenant)
  call('ZREM', lane.delayed, packed)
  local at = entry.put_off and 12 or 11
  tenant[at] = tenant[at] - 1
  g[entry.put_off and 4 or 3] = g[entry.put_off and 4 or 3] - 1
  if entry.put_off then call('ZREM', P .. 'o:' .. entry.tenant, packed) end
  if has(byte(entry.record), HAS_ACTION) then
    local action = action_of(parse_record(entry.record).action)
    if action then count(action, entry.put_off and 'nr' or 'dl', -1) end
  end
  return lane
end
