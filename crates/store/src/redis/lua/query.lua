-- Answers queries: changes nothing.
--
-- ARGV: prefix, epoch, query, then its arguments.

local query = ARGV[3]

-- Waiting jobs of a tenant with these slots, and the lanes of the slots, each with its number of jobs.
local function waiting_of(name, slots)
  local waits, at_work = 0, {}
  each_piece_of_lanes(function(names)
    for _, at in ipairs(names) do
      local packed = call('HGET', P .. 'w:' .. at, name)
      if packed then
        local jobs = ready(read_slot(packed))
        waits, slots = waits + jobs, slots - 1
        at_work[#at_work + 1], at_work[#at_work + 2] = at, jobs
        if slots == 0 then return true end
      end
    end
  end)
  return waits, at_work
end

-- Returns the end of the longest delay in a lane of a job that is meant. The last delays may be other jobs', but seldom
-- this many.
local LAST_ONES = 100
local function last_due(lane, is_meant)
  local last = call('ZREVRANGE', lane.delayed, 0, LAST_ONES - 1, 'WITHSCORES')
  for i = 1, #last, 2 do
    local entry, job = sound_entry(last[i])
    if entry and not entry.put_off and is_meant(entry, job) then return tonumber(last[i + 1]) end
  end
  return 0
end

-- Returns the end of the longest delay of a tenant's jobs.
local function last_due_of(tenant)
  local last = 0
  each_piece_of_lanes(function(names)
    for _, at in ipairs(names) do
      local lane = lane_of(at)
      if lane then last = max(last, last_due(lane, function(entry) return entry.tenant == tenant end)) end
    end
  end)
  return last
end

local function tenant_report(name)
  local heads, rests = tenants_as_written({ name })
  local head, rule = heads[1], call('HGET', K.rules, name)
  if not head and not rule then return false end
  local r = rule and { unpacked(RULE_FORM, rule) } or usual
  local paused, own = r[5], rule and r[1] > 0
  if not own then r = usual end
  local t = {}
  for i = 1, 20 do t[i] = 0 end
  local waits, at_work, due_last = 0, {}, 0
  if head then
    t = read_tenant(head, rests[name])
    if t[20] > 0 then waits, at_work = waiting_of(name, t[20]) end
    -- While others wait, their time is longer than most delays.
    if waits == 0 and t[11] > 0 then due_last = last_due_of(name) end
  end
  return { name, own and 1 or 0, r[6], r[7], r[2], r[3], r[4], paused, waits + t[11] + t[12] + t[13], t[12], t[11], t[6], t[7], t[8],
    t[9], t[10], t[14], t[15], t[16], t[17], t[18], due_last, unpack(at_work, 1, min(#at_work, CHUNK)) }
end

-- Paused tenants with waiting jobs: read once for all actions of a page.
local stopped
local function stopped_tenants()
  if stopped then return stopped end
  stopped = {}
  local names = call('ZRANGE', P .. 'stopped', 0, CHUNK - 1)
  if #names == 0 then return stopped end
  local heads, rests = tenants_as_written(names)
  for i, name in ipairs(names) do
    local t = heads[i] and read_tenant(heads[i], rests[name])
    if t and t[20] + t[11] + t[12] + t[13] > 0 then stopped[#stopped + 1] = name end
  end
  return stopped
end

-- Returns true if an action has put jobs at a place of a tenant in one of these lanes.
local function has_put(action, name, names)
  local places = {}
  for i, lane in ipairs(names) do places[i] = lane .. ' ' .. name end
  for _, is_there in ipairs(call('SMISMEMBER', P .. 'm:' .. action.name, unpack(places))) do
    if is_there == 1 then return true end
  end
  return false
end

-- Counts the paused tenants at whose places the action has put jobs.
local function held_of(action)
  if action.q == 0 or #stopped_tenants() == 0 then return 0 end
  local held, left = 0, stopped_tenants()
  each_piece_of_lanes(function(names)
    local others = {}
    for _, name in ipairs(left) do
      if has_put(action, name, names) then held = held + 1 else others[#others + 1] = name end
    end
    left = others
    return #left == 0
  end)
  return held
end

local function action_report(name)
  local action = action_of(name)
  if not action then return false end
  local report = { name, held_of(action) }
  for _, field in ipairs(ACTION) do report[#report + 1] = action[field] end
  report[#report + 1] = call('HGET', action.key, 'note')
  return report
end

-- Returns the cost of a tenant's first job in a lane: the costs of the others are not read.
local function first_cost(lane, tenant)
  for class = 3, 1, -1 do
    local record = call('LINDEX', list_key(lane, tenant, class), 0)
    local job = record and sound_record(record)
    if job then return job.cost end
  end
  return 1
end

-- Returns how many records of a list come up to the last of an action with this many waiting jobs. Jobs of one
-- submission are neighbours: some records are read, more if these miss a small action, and then those around the last
-- one that is the action's.
local function up_to_last(list, name, queued)
  local function is_its(index)
    local record = call('LINDEX', list, index)
    local job = record and sound_record(record)
    return job and job.action == name
  end
  local len = call('LLEN', list)
  if len == 0 or is_its(len - 1) then return len end
  local function search(step)
    local other, its = len - 1, len - 1 - step
    while its >= 0 and not is_its(its) do other, its = its, its - step end
    return other, its
  end
  local step, finer = max(1, floor(len / SAMPLED)), max(1, floor(len / MOST_SAMPLED), floor(queued / 4))
  local other, its = search(step)
  if its < 0 and finer < step then
    step = finer
    other, its = search(step)
  end
  -- The first jobs belong to an action that is nearly done.
  if its < 0 and is_its(0) then its = 0 end
  if its < 0 then return step > queued and len or 0 end
  while other - its > 1 do
    local middle = floor((its + other) / 2)
    if is_its(middle) then its = middle else other = middle end
  end
  return its + 1
end

-- Returns the jobs of a tenant up to the last of an action. Classes take turns by their factors, and in each of them
-- jobs that came back go first.
local function jobs_until(lane, tenant, slot, action)
  local most = 0
  for class = 1, 3 do
    local its = slot[5 + class] > 0 and up_to_last(list_key(lane, tenant, class), action.name, action.q) or 0
    local all = its + slot[8 + class]
    local turns = its > 0 and all / FACTOR[class] or 0
    for other = 1, 3 do
      if other ~= class then all = all + min(slot[5 + other] + slot[8 + other], floor(turns * FACTOR[other])) end
    end
    most = max(most, all)
  end
  return most
end

-- Returns an action's waiting jobs, the start of the last, and its places: lane, tenant, jobs that
-- could start there, cost of one, jobs of the tenant up to the last of them.
local function left_of(name)
  local action, out, seen = action_of(name), { 0, 0 }, {}
  if not action or action.q == 0 then return out end
  out[1] = action.q
  for _, place in ipairs(call('SSCAN', P .. 'm:' .. name, 0, 'COUNT', CHUNK)[2]) do
    local at, tenant = string.match(place, '^(%S+) (%S+)$')
    local lane = at and lane_of(at)
    if lane then
      local packed = call('HGET', lane.key, tenant)
      local all = packed and jobs_until(lane, tenant, read_slot(packed), action) or 0
      out[#out + 1] = { at, tenant, min(action.q, all), first_cost(lane, tenant), all }
    end
    if lane and action.dl > 0 and not seen[at] then
      seen[at], out[2] = true, max(out[2], last_due(lane, function(_, job) return job.action == name end))
    end
  end
  return out
end

-- Returns lanes with the number of tenants in each. A slot is a tenant with jobs that could start; one lane
-- has all tenants with work, also those whose jobs are deferred.
local function lane_loads(after)
  local out, alone = {}, call('ZCARD', K.lanes) == 1
  for _, at in ipairs(call('ZRANGEBYLEX', K.lanes, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, CHUNK)) do
    out[#out + 1] = at
    out[#out + 1] = max(1, alone and g[15] or call('HLEN', P .. 'w:' .. at) - 1)
  end
  return out
end

local function page(key, report)
  local from = ARGV[4] == '' and '-' or '(' .. ARGV[4]
  local out = {}
  for _, name in ipairs(call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, tonumber(ARGV[5]))) do
    -- An action past its lifetime that was not removed yet is only its name.
    out[#out + 1] = report(name) or { name }
  end
  return out
end

-- Due jobs count as queued, even before a step has moved them.
local function due()
  local delayed, put_off = 0, 0
  if g[3] + g[4] == 0 then return 0, 0 end
  each_piece_of_lanes(function(names)
    for _, at in ipairs(names) do
      for _, packed in ipairs(call('ZRANGEBYSCORE', P .. 'd:' .. at, '-inf', now, 'LIMIT', 0, CHUNK)) do
        if byte(packed) >= PUT_OFF then put_off = put_off + 1 else delayed = delayed + 1 end
      end
    end
  end)
  return delayed, put_off
end

if query == 'counts' then
  local delayed, put_off = due()
  return { g[2], g[4] - put_off, g[3] - delayed, g[5], g[6], g[7], g[8], g[9], g[10], g[11] }
elseif query == 'stored' then
  return { g[2], g[4], g[3], g[5], g[6], g[7], g[8], g[9], g[10], g[11] }
elseif query == 'active' then
  return g[15]
elseif query == 'tenant' then
  return tenant_report(ARGV[4])
elseif query == 'tenants' then
  return page(K.who, tenant_report)
elseif query == 'action' then
  return action_report(ARGV[4])
elseif query == 'remaining' then
  return left_of(ARGV[4])
elseif query == 'actions' then
  return page(K.actions, action_report)
elseif query == 'lanes' then
  return call('ZRANGEBYLEX', K.lanes, ARGV[4] == '' and '-' or '(' .. ARGV[4], '+', 'LIMIT', 0, CHUNK)
elseif query == 'loads' then
  return lane_loads(ARGV[4])
elseif query == 'overdue' then
  return call('ZRANGEBYSCORE', K.adue, '-inf', now, 'LIMIT', 0, tonumber(ARGV[4]))
elseif query == 'resuming' then
  return call('ZRANGEBYSCORE', P .. 'resuming', '-inf', now, 'LIMIT', 0, tonumber(ARGV[4]))
elseif query == 'these' then
  local out = {}
  for i = 4, #ARGV do out[#out + 1] = action_report(ARGV[i]) or { ARGV[i] } end
  return out
elseif query == 'places' then
  return call('SSCAN', P .. 'm:' .. ARGV[4], ARGV[5], 'COUNT', 200)
elseif query == 'outcomes' then
  return { now, call('LRANGE', P .. 'r:' .. ARGV[4], ARGV[5], ARGV[5] + ARGV[6] - 1) }
elseif query == 'history' then
  return call('LRANGE', P .. 'k:' .. ARGV[4], -tonumber(ARGV[5]), -1)
elseif query == 'dead' then
  return call('ZRANGEBYSCORE', K.dead, '(' .. ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[5]))
end
