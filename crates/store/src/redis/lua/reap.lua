-- Recovers the claims of sessions whose lease expired. A job that never started is as it was before
-- its claim.
--
-- ARGV: prefix, epoch, limit, recoveries.

local most, bound = tonumber(ARGV[3]), tonumber(ARGV[4])
local returned, dead_lettered = 0, 0
local lost = call('ZRANGEBYSCORE', K.sessions, '-inf', now, 'LIMIT', 0, 100)
local freed = {}
local LOST = 'its worker was lost before it said what came of it'

-- Any of these jobs may have killed the worker. Those at their last recovery start one after the
-- other, so that they are not lost together once more.
local APART, LONGEST_APART, suspects = 200000, 60000000, 0
local function part(entry, tenant, action)
  tenant[11], g[3] = tenant[11] + 1, g[3] + 1
  if action then count(action, 'dl', 1) end
  delay(entry, now + min(suspects * APART, LONGEST_APART))
  suspects = suspects + 1
end

local function take_back(entry, job, claim, begun)
  local tenant = tenant_of(entry.tenant)
  local action = job.action and action_of(job.action)
  local ours = action and claim > action.floor
  local cancelled = claim <= tenant[19] or (job.action and (not ours or action.st == FAILED or action.st == CANCELLED))
  -- Nothing is sent after the lease, so a call arrived by now.
  if entry.holds then starts.end_hold(entry, tenant, job.cost, begun and 0 or nil) end
  if tenant[2] > 0 and tenant[6] >= tenant[2] then freed[entry.tenant] = true end
  tenant[6] = tenant[6] - 1
  g[5] = g[5] - 1
  if begun then
    job.attempts, job.recoveries = job.attempts + 1, job.recoveries + 1
    add_error(job, LOST)
  end
  if ours then count(action, 'fl', -1) end
  if cancelled then
    tenant[10], g[9] = tenant[10] + 1, g[9] + 1
    if ours then
      count(action, 'ca', 1)
      record_outcome(action, ENDED_CANCELLED, job, entry.tenant)
    end
    free_name(job)
  elseif begun and job.recoveries > bound then
    local outcome_at
    tenant[8] = tenant[8] + 1
    if action then
      count(action, 'dd', 1)
      outcome_at = record_outcome(action, ENDED_FAILED, job, entry.tenant, nil, LOST)
    end
    dead_letter(job, entry, nil, outcome_at)
    dead_lettered = dead_lettered + 1
  else
    entry.record = write_record(job, entry.record)
    local lane = lane_of(entry.lane)
    count_waiting(lane, 1)
    if action then count(action, 'q', 1) end
    if job.recoveries > 0 and job.recoveries >= bound then
      part(entry, tenant, action)
    else
      give_back(lane, entry.tenant, entry)
    end
    returned = returned + 1
  end
end

-- Reads some of the remaining fields of a session. Removed fields leave gaps, through which a scan
-- from the start finds nothing.
local MAX_PAGES = 100
local function some_of(key)
  local cursor, pages, found = '0', 0, nil
  repeat
    found, pages = call('HSCAN', key, cursor, 'COUNT', CHUNK), pages + 1
    cursor = found[1]
  until #found[2] > 0 or cursor == '0' or pages == MAX_PAGES
  return found[2]
end

-- A malformed entry was counted as a job when it was claimed.
local function throw_out(packed)
  local well, entry = pcall(parse_entry, packed)
  set_aside(packed)
  if not well or #entry.tenant == 0 or #entry.lane == 0 or call('HEXISTS', K.t, entry.tenant) == 0 then return end
  local tenant = tenant_of(entry.tenant)
  tenant[6], g[5] = tenant[6] - 1, g[5] - 1
end

local left = most
for _, session in ipairs(lost) do
  if left <= 0 then break end
  local key, begun = P .. 's:' .. session, sub(session, -#NOT_BEGUN) ~= NOT_BEGUN
  local found = some_of(key)
  local gone, entries, jobs, broken = {}, {}, {}, {}
  for i = 1, #found, 2 do
    if #gone + #broken < left then
      local entry, job = sound_entry(found[i + 1])
      if entry and #found[i] == CLAIM_SIZE then
        gone[#gone + 1], entries[#entries + 1], jobs[#jobs + 1] = found[i], entry, job
      else
        broken[#broken + 1] = found[i]
        throw_out(found[i + 1])
      end
    end
  end
  for _, entry in ipairs(entries) do
    call('ZCARD', back_key(lane_of(entry.lane), entry.tenant, entry.class))
  end
  write_all('HDEL', key, gone)
  write_all('HDEL', key, broken)
  for i, entry in ipairs(entries) do take_back(entry, jobs[i], (unpacked(CLAIM_FORM, gone[i])), begun) end
  left = left - #gone - #broken
  if call('EXISTS', key) == 0 then call('ZREM', K.sessions, session) end
end
for name in pairs(freed) do wake_slots(name) end
if returned + dead_lettered > 0 or left < most then
  must_notify = true
  starts.save()
  save_actions()
  save_all()
end

-- Ends expired jobs at the heads of their lists, even if no job of the list can start: of some
-- tenants each time, in rotation. Only a tenant with jobs that need checks can have them.
local LOOKED_AT_ONCE = 200
local expired = 0

local function is_late(record)
  local job = record and (byte(record) or 0) % 8 > 0 and sound_record(record)
  return job and job.deadline and job.deadline <= now
end

-- Returns the expired job at the head of a class, and how to remove it: from the list, or from the
-- returned jobs.
local function late_head(lane, name, class)
  local list, back = list_key(lane, name, class), back_key(lane, name, class)
  local record = call('LINDEX', list, 0)
  if is_late(record) then return record, 'LPOP', list, 5 + class end
  local came = call('ZRANGE', back, 0, 0)[1]
  if came and is_late(sub(came, 7)) then return sub(came, 7), 'ZPOPMIN', back, 8 + class end
end

local function end_late(lane, name, class)
  local slot = slot_of(lane, name)
  local record, take, key, counted = late_head(lane, name, class)
  while record and expired < most do
    local job = parse_record(record)
    if job.action then action_of(job.action) end
    tenant_of(name)
    call(take, key)
    -- A new list begins above all indexes that were taken from it.
    g[1] = g[1] + 1
    slot[counted], slot.dirty = slot[counted] - 1, true
    if take == 'LPOP' then slot[2 + class] = slot[2 + class] + 1 end
    drop(job, { lane = lane.name, tenant = name }, EXPIRED)
    expired = expired + 1
    record, take, key, counted = late_head(lane, name, class)
  end
end

-- The position is stored before any check, so that a failure here does not repeat.
local function look_at_lane(lane, at, cursor)
  local found = call('HSCAN', lane.key, cursor, 'COUNT', LOOKED_AT_ONCE)
  cursor = found[1]
  call('SET', P .. 'late', string.format('%d %s', cursor == '0' and at + 1 or at, cursor), 'PX', 60000)
  for i = 1, #found[2], 2 do
    local name, packed = found[2][i], found[2][i + 1]
    if name ~= '' and #packed ~= PLAIN_SIZE then
      for class = 1, 3 do end_late(lane, name, class) end
    end
  end
end

-- Position of the scan: the place of a lane, and the cursor in it.
local kept = call('GET', P .. 'late')
local at, cursor = string.match(kept or '0 0', '(%d+) (%d+)')
local name = call('ZRANGE', K.lanes, at, at)[1]
if name then
  look_at_lane(lane_of(name), at, cursor)
elseif kept then
  call('DEL', P .. 'late')
end
if expired > 0 then
  save_actions()
  save_all()
end

local first = call('ZRANGE', K.sessions, 0, 0, 'WITHSCORES')
return { returned, dead_lettered, first[2] and max(0, tonumber(first[2]) - now) or -1, expired }
