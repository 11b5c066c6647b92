-- Walks over waiting jobs of one tenant in bounded pieces, and ends or moves the selected ones.
--
-- ARGV: prefix, epoch, tenant, operation, action or nothing, lane or nothing, limit, position: a
-- phase and the number of skipped jobs. The operation is `cancel` (jobs waiting in a lane),
-- `delayed` (delayed jobs of a lane), `held`, `resume` (jobs held by a pause), `release` (deferred
-- jobs), `doom` (claimed jobs, and those claimed from now on, do not start again) or `mark`
-- (claimed jobs do not).
--
-- Jobs move during the search. While a whole tenant is cancelled none of its jobs returns from a
-- worker or a pause. So a job moves from its delay to its queue and from there to a worker or a
-- pause, and a search in that order finds it. Each piece renews the cancellation: without further
-- pieces, the tenant continues after a while.
--
-- To find the jobs of an action, a list is taken from its head: unselected jobs join the returned
-- ones, which are served first and by index, so nothing changes for them.

local name, operation, action_name, lane_name, most = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local phase, at = tonumber(ARGV[8]), tonumber(ARGV[9])
local swept, looked = 0, 0

-- A piece takes milliseconds, but its caller may be delayed for longer.
local A_WHILE = 30000000
local function doom() tenant_of(name)[19] = ALL_CLAIMS + now + A_WHILE end

local function is_meant(job)
  return action_name == '' or job.action == action_name
end

local function end_entry(entry, job)
  drop(job, { lane = entry.lane, tenant = entry.tenant or name }, ENDED_CANCELLED)
  swept = swept + 1
end

local function sweep_list(lane, class)
  local slot = slot_of(lane, name)
  while slot[5 + class] > 0 and looked < most do
    local many = min(slot[5 + class], most - looked, 500)
    local records = call('LPOP', list_key(lane, name, class), many)
    local index = slot[2 + class]
    slot[2 + class], slot[5 + class], slot.dirty = index + many, slot[5 + class] - many, true
    g[1] = g[1] + many
    looked = looked + many
    if not records or #records < many then
      count_waiting(lane, (records and #records or 0) - many)
    end
    for i, record in ipairs(records or {}) do
      local job = sound_record(record)
      if not job then
        set_aside(record)
        count_waiting(lane, -1)
      elseif is_meant(job) then
        end_entry({ lane = lane.name }, job)
      else
        call('ZADD', back_key(lane, name, class), index + i - 1, pack('>I6', 0) .. record)
        slot[8 + class] = slot[8 + class] + 1
      end
    end
  end
end

local function sweep_back(lane, class)
  local slot = slot_of(lane, name)
  local key = back_key(lane, name, class)
  while looked < most do
    local members = call('ZRANGE', key, at, at + 499)
    if #members == 0 then return end
    for _, member in ipairs(members) do
      local job = sound_record(sub(member, 7))
      looked = looked + 1
      if not job then
        call('ZREM', key, member)
        set_aside(member)
        slot[8 + class], slot.dirty = max(0, slot[8 + class] - 1), true
        count_waiting(lane, -1)
      elseif is_meant(job) then
        call('ZREM', key, member)
        slot[8 + class], slot.dirty = slot[8 + class] - 1, true
        end_entry({ lane = lane.name }, job)
      else
        at = at + 1
      end
    end
  end
end

-- Returned jobs come first: the rest of the list joins them.
local function sweep_slot(lane)
  local slot = slot_of(lane, name)
  if slot.fresh then
    lane.slots[name] = nil
    return
  end
  while phase < 6 and looked < most do
    local class = floor(phase / 2) + 1
    if phase % 2 == 0 then sweep_back(lane, class) else sweep_list(lane, class) end
    if looked < most then phase, at = phase + 1, 0 end
  end
end

-- Scans by cursor, which shows every permanent member: others leave and join meanwhile, so that no
-- position stays the same. Returns true if there is more.
local SCANNED = 500
local function sweep_delayed(lane)
  local cursor = string.format('%.0f', at)
  repeat
    local found = call('ZSCAN', lane.delayed, cursor, 'COUNT', SCANNED)
    cursor, looked = found[1], looked + SCANNED
    for i = 1, #found[2], 2 do
      local packed = found[2][i]
      local entry, job = sound_entry(packed)
      if not entry then
        call('ZREM', lane.delayed, packed)
        set_aside(packed)
      elseif (name == '' or entry.tenant == name) and is_meant(job) then
        undelay(packed, entry)
        end_entry(entry, job)
      end
    end
  until cursor == '0' or looked >= most
  at = tonumber(cursor)
  return at > 0
end

local function unhold(member, job)
  local tenant = tenant_of(name)
  call('ZREM', P .. 'h:' .. name, member)
  tenant[13], g[14] = tenant[13] - 1, g[14] - 1
  local action = action_of(job.action)
  if action then count(action, 'hd', -1) end
end

local function sweep_held()
  local key = P .. 'h:' .. name
  local from, to = '-', '+'
  if action_name ~= '' then from, to = '[' .. action_name .. ' ', '(' .. action_name .. '!' end
  while looked < most do
    local found = call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, 500)
    if #found == 0 then break end
    for _, member in ipairs(found) do
      looked = looked + 1
      local entry, job = sound_entry(sub(member, (string.find(member, ' ', 1, true) or 0) + 1))
      if not entry then
        call('ZREM', key, member)
        set_aside(member)
      else
        unhold(member, job)
        if operation == 'resume' and tenant_of(name)[19] < ALL_CLAIMS then
          give_back(lane_of(entry.lane), name, entry)
          swept = swept + 1
        else
          end_entry(entry, job)
        end
      end
    end
  end
end

local function release()
  for _, packed in ipairs(call('ZRANGE', P .. 'o:' .. name, 0, most - 1)) do
    local entry = sound_entry(packed)
    if entry then
      give_back(undelay(packed, entry), name, entry)
      swept = swept + 1
    else
      call('ZREM', P .. 'o:' .. name, packed)
      set_aside(packed)
    end
  end
end

-- An action that was opened again meanwhile keeps its jobs.
local function is_spared()
  local action = action_name ~= '' and operation ~= 'resume' and action_of(action_name)
  return action and not is_over(action)
end

local left = 0
if is_spared() then
  left = 0
elseif operation == 'release' then
  release()
  left = tenant_of(name)[12]
elseif operation == 'mark' then
  tenant_of(name)[19] = g[1]
elseif operation == 'doom' then
  doom()
else
  if name ~= '' and action_name == '' then doom() end
  local more
  if operation == 'delayed' then
    more = sweep_delayed(lane_of(lane_name))
  else
    if operation == 'cancel' then sweep_slot(lane_of(lane_name)) else sweep_held() end
    more = looked >= most
  end
  left = more and 1 or 0
end
if swept > 0 then must_notify = true end
save_actions()
save_all()
return { swept, left, phase, at }
