-- Jobs, their actions, and their ends.
--
-- A record is the encoded job of the submitter, and stays unchanged until something happens to the
-- job; see the layout in `job_codec.rs`. An entry is a record with its lane, its tenant and its
-- index in the list it was taken from, for when it has left the list.

-- Entry: class, lengths of lane and tenant; after both, its index, as a number and an offset, and
-- the number of the first claim. Jobs that are taken together differ only in the offset and the
-- record.
local ENTRY_HEAD, ENTRY_PLACE = '>BBB', '>I6HI6'
local PLACE_SIZE = 14
-- Field of a claim in its session.
local CLAIM_FORM, CLAIM_SIZE = '>I6', 6
-- Suffix of a session name for claims that the session never received. No name holds a space.
local NOT_BEGUN = ' -'
-- Added to the class of a deferred entry, and to that of a claim that holds units of a tenant's limit.
local PUT_OFF, HOLDS = 8, 16

local HAS_ACTION, HAS_DEADLINE, HAS_COST, HAS_NAME, HAS_COUNTS, HAS_HISTORY = 1, 2, 4, 8, 16, 32
-- Number of a job's errors that are stored: the last ones.
local MAX_ERRORS = 10

local function has(flags, bit) return flags % (2 * bit) >= bit end

local function entry_of(lane, tenant, job)
  return pack(ENTRY_HEAD, job.class + (job.holds and HOLDS or 0), #lane, #tenant) .. lane .. tenant .. pack(ENTRY_PLACE, job.index, 0, job.first)
    .. job.record
end

-- Returns the owner of an entry, and where its record begins.
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
    class = class % PUT_OFF, put_off = class % HOLDS >= PUT_OFF, holds = class >= HOLDS or nil, index = index + more, first = first,
    lane = sub(entry, 4, 3 + lane_len), tenant = tenant, record = sub(entry, record_at),
  }
end

local function parse_record(record)
  local flags, retries, len = unpacked('>BHB', record)
  local job = { flags = flags, max_retries = retries, id = sub(record, 5, 4 + len), cost = 1,
    attempts = 0, retries = 0, throttles = 0, recoveries = 0, errors = 0, history = '' }
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
    job.errors = byte(record, at)
    local from = at
    at = at + 1
    for _ = 1, job.errors do at = at + 9 + unpacked('>H', record, at + 7) end
    job.history = sub(record, from + 1, at - 1)
  end
  job.payload_at = at
  return job
end

-- Returns the job of a record, or nothing if it is malformed.
local function sound_record(record)
  local well, job = pcall(parse_record, record)
  if well and #job.id > 0 and job.payload_at <= #record + 1 then return job end
end

-- Returns an entry and its job, or nothing if it is malformed.
local function sound_entry(packed)
  local well, entry = pcall(parse_entry, packed)
  local job = well and #entry.tenant > 0 and #entry.lane > 0 and sound_record(entry.record)
  if job then return entry, job end
end

-- Advance of a tenant by one job, before its share is applied. Larger costs are capped: places
-- would leave the exact range of doubles with every job.
local MAX_CHARGE = 2 ^ 24
local function charge_of(cost) return max(1, min(cost, MAX_CHARGE)) end

local function flag_of(job, bit, present)
  if has(job.flags, bit) == present then return end
  job.flags = job.flags + (present and bit or -bit)
end

-- Encodes the record of a changed job.
local function write_record(job, record)
  flag_of(job, HAS_COUNTS, job.attempts + job.retries + job.throttles + job.recoveries > 0)
  flag_of(job, HAS_HISTORY, job.errors > 0)
  local parts = { pack('>BHB', job.flags, job.max_retries, #job.id), job.id }
  if job.action then parts[#parts + 1] = pack('>B', #job.action) .. job.action end
  if job.deadline then parts[#parts + 1] = pack('>I7', job.deadline) end
  if has(job.flags, HAS_COST) then parts[#parts + 1] = pack('>I7', job.cost) end
  if job.remember then parts[#parts + 1] = pack('>I7', job.remember) end
  if has(job.flags, HAS_COUNTS) then
    parts[#parts + 1] = pack('>I4I4I4I4', job.attempts, job.retries, job.throttles, job.recoveries)
  end
  if job.errors > 0 then parts[#parts + 1] = pack('>B', job.errors) .. job.history end
  parts[#parts + 1] = sub(record, job.payload_at)
  return table.concat(parts)
end

local function add_error(job, words)
  if job.errors >= MAX_ERRORS then
    job.history = sub(job.history, 10 + unpacked('>H', job.history, 8))
    job.errors = job.errors - 1
  end
  job.history = job.history .. pack('>I7H', now, #words) .. words
  job.errors = job.errors + 1
end

-- Fields of an action: its state, then its counters, then the last end of a job.
local ACTION = { 'st', 'closed', 'paused', 'opened', 'started', 'ended', 'timeout', 'keep', 'floor', 'told',
  'q', 'nr', 'dl', 'hd', 'fl', 'dn', 'dd', 'fa', 'ca', 'th', 'bu', 'progressed' }
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

-- Opens an action under an unused name, or under that of one that is over.
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

-- The timeout counts from the last end of a job, or from the opening.
local function times_out(action) return max(action.opened, action.progressed) + action.timeout end

-- Sets the spec of an action. A present note begins with a sign, since it may be empty.
local function specify(action, timeout, keep, note)
  action.timeout, action.keep, action.dirty = tonumber(timeout), tonumber(keep), true
  call('ZADD', K.adue, times_out(action), action.name)
  if note == '' then
    call('HDEL', action.key, 'note')
  else
    call('HSET', action.key, 'note', sub(note, 2))
  end
end

-- Counters of jobs that are over.
local IS_END = { dn = true, dd = true, ca = true }

local function count(action, field, by)
  action[field] = max(0, action[field] + by)
  if by > 0 and IS_END[field] then action.progressed = now end
  action.dirty = true
end

local function is_over(action) return action.st >= COMPLETED end

-- Returns true if it has no open jobs and is closed.
local function is_settled(action)
  return (action.closed == 1 or is_over(action)) and action.q + action.fl == 0
end

-- Returns true if it ended before its jobs, which do not start any more.
local function is_cut_short(action) return action.st == FAILED or action.st == CANCELLED end

-- Returns true if its name may be used again: a completed action may have requeued dead letters.
local function is_reusable(action) return is_over(action) and (is_cut_short(action) or is_settled(action)) end

-- A name is not reused before all of its earlier jobs have ended.
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
        -- The holder of the end has moved its time forward.
        call('ZADD', K.ripe, 'NX', now, name)
      elseif action.st == 0 then
        call('ZREM', K.ripe, name)
      end
    end
  end
end

-- Returns the action of a claimed job, if it is still the same one: a name may be reused.
local function action_since(name, claim)
  local action = name and action_of(name)
  if action and claim > action.floor then return action end
end

-- Detaches a job from its action.
local function leave_action(job)
  job.action = nil
  flag_of(job, HAS_ACTION, false)
end

local DONE, ENDED_FAILED, EXPIRED, ENDED_CANCELLED = 1, 2, 3, 4
-- Flag of an outcome whose error text precedes the stored result.
local SPOKEN = 16

-- Returns the last error of a job as the end of a sentence.
local function last_error(job)
  local at, words = 1, nil
  for _ = 1, job.errors do
    local size = unpacked('>H', job.history, at + 7)
    words, at = sub(job.history, at + 9, at + 8 + size), at + 9 + size
  end
  return words and '; last error: ' .. words or ''
end

local function timeout_reason(action, job)
  local reason = string.format(
    'the action made no progress for %g s, its timeout: submit the job again with a longer timeout',
    action.timeout / 1000000)
  return sub(reason .. last_error(job), 1, 65535)
end

local function record_outcome(action, ended, job, tenant, result, words)
  local status, expiry, said, body = 0, 0, '', ''
  if ended == ENDED_CANCELLED and action.st == FAILED then words = timeout_reason(action, job) end
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

-- Lets the name of an ended job expire.
local function forget_name(job)
  if job.remember then call('ZADD', K.names, now + job.remember, job.id) end
end

-- Frees the name of a cancelled job at once: its caller may submit it again.
local function free_name(job)
  if job.remember then call('ZREM', K.names, job.id) end
end

-- Ends a waiting job that never started.
local function drop(job, entry, ended)
  local tenant = tenant_of(entry.tenant)
  tenant[10] = tenant[10] + 1
  g[9] = g[9] + 1
  count_waiting(lane_of(entry.lane), -1)
  local action = job.action and action_of(job.action)
  if action then
    count(action, 'q', -1)
    count(action, 'ca', 1)
    record_outcome(action, ended, job, entry.tenant)
  end
  if ended == ENDED_CANCELLED then free_name(job) else forget_name(job) end
end

-- Dead-letters a job; its outcome is at this place of its action, if it has one.
local function dead_letter(job, entry, words, outcome_at)
  if words then add_error(job, words) end
  g[12] = g[12] + 1
  if outcome_at then call('HSET', P .. 'e:' .. job.action, g[12], outcome_at) end
  g[7] = g[7] + 1
  entry.record = write_record(job, entry.record)
  call('ZADD', K.dead, g[12], pack('>I7', now) .. entry_of(entry.lane, entry.tenant, entry))
  forget_name(job)
end

-- Delays a claimed job until an instant.
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

-- Requeues jobs that are due, or released before.
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
