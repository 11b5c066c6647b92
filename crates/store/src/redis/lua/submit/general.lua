-- Takes a batch with any content.

local groups = read_groups()
local action, over, closed
if action_name ~= '' then
  action = action_of(action_name)
  over = action and is_reusable(action)
  closed = action and not over and action.closed == 1
  careful = careful or closed
end

local by_lane = {}
for _, group in ipairs(groups) do
  group.lane, group.delayed = lane_of(group.lane), {}
  local name = group.lane.name
  by_lane[name] = by_lane[name] or {}
  table.insert(by_lane[name], group.tenant)
end
for name, some in pairs(by_lane) do
  load_slots(lanes[name], some)
  -- A tenant without a slot gets one, for which its record must be known.
  local new = {}
  for _, tenant in ipairs(some) do
    if lanes[name].slots[tenant].fresh then new[#new + 1] = tenant end
  end
  load_tenants(new)
end

local verdicts, new_names = {}, {}
local turned_away = false
local accepted = total

local function look_at_each()
  local order, named, known = {}, {}, {}
  local ordinals, dues, at = ARGV[11], ARGV[12], 0
  for _, group in ipairs(groups) do
    group.push = {}
    for i = 1, group.size do
      local ordinal = unpacked('>I4', ordinals, 4 * at + 1)
      local record = ARGV[group.first + i - 1]
      local job = { group = group, record = record }
      if #dues > 0 then job.due = unpacked('>I7', dues, 7 * at + 1) end
      at = at + 1
      if has(byte(record), HAS_NAME) then
        job.id = parse_record(record).id
        named[#named + 1] = job.id
      end
      order[ordinal] = job
    end
  end
  each_chunk(named, CHUNK, function(first, last_one)
    local scores = call('ZMSCORE', K.names, unpack(named, first, last_one))
    for i = first, last_one do
      local score = scores[i - first + 1]
      if score and tonumber(score) > now then known[named[i]] = true end
    end
  end)
  accepted = 0
  for ordinal = 1, total do
    local job = order[ordinal]
    if job.id and known[job.id] then
      verdicts[ordinal] = -1
    elseif closed then
      verdicts[ordinal] = -2
    elseif g[2] + accepted >= queue_max then
      verdicts[ordinal] = 0
      turned_away = true
    else
      accepted = accepted + 1
      if job.id then
        known[job.id] = true
        new_names[#new_names + 1] = 'inf'
        new_names[#new_names + 1] = job.id
      end
      local group = job.group
      local slot = group.lane.slots[group.tenant]
      group.lane.coming = group.lane.coming or {}
      local waits = (group.lane.coming[group.tenant] or ready(slot)) + 1
      group.lane.coming[group.tenant] = waits
      verdicts[ordinal] = waits
      if job.due and job.due > now then
        job.after = #group.push
        table.insert(group.delayed, job)
      else
        table.insert(group.push, job.record)
      end
    end
  end
end

if careful then look_at_each() end

-- Opens the action with the first accepted job, or without any; but closing a finished action again
-- must not discard its outcomes.
local opens = action_name ~= '' and (not action or over)
  and (accepted > 0 or (total == 0 and not (over and last)))
if opens and over then be_clean(action_name) end

-- The first writes.
for _, group in ipairs(groups) do
  local key = list_key(group.lane, group.tenant, group.class)
  if group.push then
    push(key, group.push, 1, #group.push)
  else
    push(key, ARGV, group.first, group.first + group.size - 1)
  end
end

if opens then
  action = open_action(action_name)
  specify(action, ARGV[6], ARGV[7], ARGV[13])
elseif over then
  action = nil
end
if action and accepted > 0 then count(action, 'q', accepted) end
-- A submitter that found the queue full comes again with the rest, and closes the action then.
if action and last and not closed and not turned_away then
  action.closed, action.dirty = 1, true
end

local befores = {}
local touched = {}
for i, group in ipairs(groups) do
  local lane, class = group.lane, group.class
  local slot = lane.slots[group.tenant]
  local meta = meta_of(lane)
  befores[i] = ready(slot)
  local size = group.push and #group.push or group.size
  if group.mark >= COSTS_DIFFER then
    meta[6], lane.dirty = 1, true
  end
  if group.mark > 0 then slot[15] = 1 end
  local tail = slot[2 + class] + slot[5 + class]
  if size > 0 then
    if slot[5 + class] + slot[8 + class] == 0 then enter_class(slot, class) end
    slot[5 + class] = slot[5 + class] + size
    arrange(lane, slot)
  end
  if size + #group.delayed > 0 then count_waiting(lane, size + #group.delayed) end
  if #group.delayed > 0 then
    local tenant = tenant_of(group.tenant)
    wake_tenant(tenant)
    for _, job in ipairs(group.delayed) do
      g[1] = g[1] + 1
      tenant[11] = tenant[11] + 1
      g[3] = g[3] + 1
      if action then count(action, 'dl', 1) end
      delay({ class = class, lane = lane.name, tenant = group.tenant, index = tail + job.after, first = g[1],
        record = job.record }, job.due)
    end
    must_notify = true
  end
  if action and accepted > 0 and not touched[lane.name .. ' ' .. group.tenant] then
    touched[lane.name .. ' ' .. group.tenant] = true
    call('SADD', P .. 'm:' .. action_name, lane.name .. ' ' .. group.tenant)
  end
end
if #new_names > 0 then write_all('ZADD', K.names, new_names) end
save_actions()
save_all()

if careful then return { g[2], g[15], 1, verdicts } end
return { g[2], g[15], 0, befores }
