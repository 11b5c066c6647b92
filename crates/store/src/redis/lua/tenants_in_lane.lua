-- Position of tenants in a lane's fair order, and their counters.
--
-- A tenant has a slot in a lane while it has jobs that could start. All slots of a lane are fields
-- of one hash, so that a script reads and writes those of a batch with one command each, for any
-- number of tenants. The field without a name is the lane itself.

-- Keys of a lane are built on demand: most steps need two of five.
local LETTERS = { key = 'w:', fair = 'f:', parked = 'p:', delayed = 'd:', owed = 'v:' }
local LANE = {
  __index = function(lane, part)
    local letter = LETTERS[part]
    if not letter then return nil end
    lane[part] = P .. letter .. lane.name
    return lane[part]
  end,
}

local function lane_of(name)
  local lane = lanes[name]
  if lane then return lane end
  lane = setmetatable({ name = name, slots = {}, join = #name .. ':' .. name .. ':' }, LANE)
  lanes[name] = lane
  return lane
end

-- Common prefix of all lists of a lane and class.
local function lists_of(lane, class) return P .. 'l:' .. class .. ':' .. lane.join end

local function list_key(lane, tenant, class) return lists_of(lane, class) .. tenant end
local function back_key(lane, tenant, class) return P .. 'b:' .. class .. ':' .. lane.join .. tenant end

local function take_meta(lane, packed)
  if lane.meta then return end
  if packed then
    lane.meta = { unpacked(LANE_FORM, packed) }
  else
    lane.meta, lane.fresh = { 0, 0, 0, 0, 1, 0, 0 }, true
  end
end

local function take_slot(lane, name, packed)
  local slot
  if packed then
    slot = read_slot(packed)
    -- Its place in the order, if it has one.
    if slot[2] == 0 then slot.was = slot[1] end
  else
    local at = g[1]
    slot = { 0, 2, at, at, at, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
    slot.fresh = true
  end
  slot.name = name
  lane.slots[name] = slot
  return slot
end

local function load_slots(lane, names)
  local ask = { '' }
  for _, name in ipairs(names) do
    if not lane.slots[name] then ask[#ask + 1] = name end
  end
  if #ask == 1 and lane.meta then return end
  local found = read_all(lane.key, ask)
  take_meta(lane, found[1])
  for i = 2, #ask do take_slot(lane, ask[i], found[i]) end
end

local function meta_of(lane)
  if not lane.meta then take_meta(lane, call('HGET', lane.key, '')) end
  return lane.meta
end

local function slot_of(lane, name)
  if not lane.slots[name] then load_slots(lane, { name }) end
  return lane.slots[name]
end

local function take_tenant(name, head, rest, rule)
  local tenant
  if head then
    tenant = read_tenant(head, rest)
    -- Its cancellation was abandoned: jobs claimed from now on may start.
    if tenant[19] > ALL_CLAIMS and tenant[19] - ALL_CLAIMS <= now then tenant[19] = g[1] end
  else
    local claim, cap, units, window, paused = 0, 0, 0, 0, 0
    if rule then claim, cap, units, window, paused = unpacked(RULE_FORM, rule) end
    tenant = { 0, 0, 0, 0, paused, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
    entitle(tenant, claim, cap, units, window)
    tenant.fresh, tenant.idle = true, true
  end
  tenant.idle = tenant[20] + tenant[6] + tenant[11] + tenant[12] + tenant[13] == 0
  tenants[name] = tenant
  return tenant
end

-- Heads in order, and existing rests by name.
local function tenants_as_written(names)
  local heads, more, rests = read_all(K.t, names), {}, {}
  for i, name in ipairs(names) do
    if has_rest(heads[i]) then more[#more + 1] = name end
  end
  if #more > 0 then
    local found = read_all(K.rest, more)
    for i, name in ipairs(more) do rests[name] = found[i] or nil end
  end
  return heads, rests
end

-- Rules of tenants without a head.
local function rules_of_new(names, heads)
  local new, rules = {}, {}
  for i, name in ipairs(names) do
    if not heads[i] then new[#new + 1] = name end
  end
  if #new > 0 then
    local found = read_all(K.rules, new)
    for i, name in ipairs(new) do rules[name] = found[i] or nil end
  end
  return rules
end

local function load_tenants(names)
  local ask = {}
  for _, name in ipairs(names) do
    if not tenants[name] then
      ask[#ask + 1] = name
      tenants[name] = true
    end
  end
  if #ask == 0 then return end
  local heads, rests = tenants_as_written(ask)
  local rules = rules_of_new(ask, heads)
  for i, name in ipairs(ask) do take_tenant(name, heads[i], rests[name], rules[name]) end
end

local function tenant_of(name)
  local tenant = tenants[name]
  if not tenant then
    load_tenants({ name })
    tenant = tenants[name]
  end
  tenant.dirty = true
  return tenant
end

-- An idle tenant starts its counts again.
local function wake_tenant(tenant)
  if tenant.idle then
    for i = 7, 18 do
      if i < 11 or i > 13 then tenant[i] = 0 end
    end
  end
end

-- Two classes begin level; a later one begins with the one that is furthest behind.
local function enter_class(slot, class)
  local least
  local others = 0
  for c = 1, 3 do
    if c ~= class and slot[5 + c] + slot[8 + c] > 0 then
      others = others + 1
      least = min(least or slot[11 + c], slot[11 + c])
    end
  end
  if others == 1 then
    for c = 1, 3 do slot[11 + c] = 0 end
  elseif others > 1 then
    slot[11 + class] = max(slot[11 + class], least)
  end
end

-- Returns true if a tenant is in a cooldown. The cooldown outlives the jobs that caused it, and
-- their slot. The lane's wake time covers parked tenants, so most lanes need no lookup.
local function is_parked(lane, name)
  local till = meta_of(lane)[4] > 0 and call('ZSCORE', lane.parked, name)
  return till and tonumber(till) > now
end

-- Puts a slot with jobs where it belongs.
local function arrange(lane, slot)
  slot.dirty = true
  if slot.fresh then
    local tenant = tenant_of(slot.name)
    wake_tenant(tenant)
    slot.fresh, slot.born = nil, true
    tenant[20] = tenant[20] + 1
    local meta = meta_of(lane)
    local owed = meta[7] == 1 and call('ZSCORE', lane.owed, slot.name)
    if owed then slot[1] = tonumber(owed) end
    slot.owed = owed
    if is_parked(lane, slot.name) then slot[2] = 1 end
  end
  if slot[2] == 2 then
    local tenant = tenants[slot.name]
    if type(tenant) ~= 'table' then tenant = tenant_of(slot.name) end
    if tenant[5] == 0 and (tenant[2] == 0 or tenant[6] < tenant[2]) then
      slot[1] = max(slot[1], meta_of(lane)[1])
      slot[2] = 0
      must_notify = true
    end
  end
end

-- The bit of `HAS_COST`, which is not defined here yet.
local function bears_cost(record) return byte(record) % 8 >= 4 end

-- Returns a job to its list, before all later ones. An empty lane forgets that costs differ, so
-- this restores it.
local function give_back(lane, name, job)
  local slot = slot_of(lane, name)
  local class = job.class
  if bears_cost(job.record) then
    meta_of(lane)[6], lane.dirty = 1, true
  end
  if slot[5 + class] + slot[8 + class] == 0 then enter_class(slot, class) end
  call('ZADD', back_key(lane, name, class), job.index, pack('>I6', job.first) .. job.record)
  slot[8 + class] = slot[8 + class] + 1
  arrange(lane, slot)
end

-- A place in the form of the order. Places of a batch are mostly equal, and writing all digits of a
-- number takes longer than sorting it.
local last_place, last_score
local function score(place)
  if place ~= last_place then last_place, last_score = place, string.format('%.17g', place) end
  return last_score
end

local function count_waiting(lane, by)
  local meta = meta_of(lane)
  meta[2] = meta[2] + by
  lane.dirty = true
  g[2] = g[2] + by
end

local function wake_at(lane, at)
  local meta = meta_of(lane)
  if meta[4] == 0 or at < meta[4] then
    meta[4] = at
    lane.dirty = true
  end
end

-- Lists the names of all lanes in pieces, until enough were seen.
local function each_piece_of_lanes(is_enough)
  local from, names = 0, nil
  repeat
    names = call('ZRANGE', K.lanes, from, from + CHUNK - 1)
    from = from + CHUNK
  until (#names > 0 and is_enough(names)) or #names < CHUNK
end

-- Lets a tenant start again in every lane in which it has a slot.
local function wake_slots(name)
  local left = tenant_of(name)[20]
  if left == 0 then return end
  each_piece_of_lanes(function(names)
    for _, at in ipairs(names) do
      local lane = lane_of(at)
      local slot = slot_of(lane, name)
      if slot.fresh then
        lane.slots[name] = nil
      else
        if slot[2] == 2 then arrange(lane, slot) end
        left = left - 1
        if left == 0 then return true end
      end
    end
  end)
end

local function save_slots(lane)
  local set, gone, order, left, owes = {}, {}, {}, {}, {}
  local meta = meta_of(lane)
  for name, slot in pairs(lane.slots) do
    if slot.dirty and not (slot.fresh) then
      if ready(slot) == 0 then
        if not slot.born then gone[#gone + 1] = name end
        if slot.was then left[#left + 1] = name end
        tenant_of(name)[20] = tenants[name][20] - 1
        slot.gone = true
        if slot[1] > meta[1] and meta[2] > 0 then
          owes[#owes + 1] = slot[1]
          owes[#owes + 1] = name
        end
      else
        set[#set + 1] = name
        set[#set + 1] = write_slot(slot)
        if slot[2] ~= 0 then
          if slot.was then left[#left + 1] = name end
          slot.was = nil
        elseif slot.was ~= slot[1] then
          order[#order + 1] = slot[1]
          order[#order + 1] = name
          slot.was = slot[1]
        end
      end
      if slot.owed then call('ZREM', lane.owed, name) end
      slot.dirty, slot.born, slot.owed = nil, nil, nil
      if slot.gone then lane.slots[name] = nil end
    end
  end
  if #owes > 0 then
    write_all('ZADD', lane.owed, owes)
    meta[7], lane.dirty = 1, true
  end
  if #order > 0 then write_all('ZADD', lane.fair, order) end
  if #left > 0 then write_all('ZREM', lane.fair, left) end
  if #gone > 0 then write_all('HDEL', lane.key, gone) end
  return set
end

-- Removes debts that the clock has passed, a piece at a time: a leftover one changes nothing.
local function end_debts(lane)
  local paid = call('ZRANGEBYSCORE', lane.owed, '-inf', score(lane.meta[1]), 'LIMIT', 0, CHUNK)
  if #paid > 0 then call('ZREM', lane.owed, unpack(paid)) end
end

-- Returns the instant until which a lane without jobs is needed: a cooldown of the lane or of a
-- tenant in it.
local function needed_until(lane)
  local meta = lane.meta
  local last = meta[4] > 0 and call('ZREVRANGE', lane.parked, 0, 0, 'WITHSCORES') or {}
  return max(meta[3], tonumber(last[2]) or 0)
end

-- Writes a lane with the given slots. A lane without jobs is removed, or noted for removal.
local function save_lane(lane, set)
  local meta = lane.meta
  if lane.dirty then
    local needed = meta[2] == 0 and needed_until(lane)
    if needed and needed <= now then
      -- Without tenants to be fair to, old debts end.
      call('UNLINK', lane.owed, lane.parked)
      call('HDEL', lane.key, '')
      call('ZREM', K.lanes, lane.name)
      set = {}
    else
      set[#set + 1] = ''
      set[#set + 1] = pack(LANE_FILLED, meta[1], meta[2], meta[3], meta[4], meta[5], meta[6], meta[7], LANE_FILL)
      if lane.fresh then call('ZADD', K.lanes, 0, lane.name) end
      if needed then call('ZADD', P .. 'empty', needed, lane.name) end
      lane.fresh = nil
    end
  end
  lane.dirty = nil
  if #set > 0 then write_all('HSET', lane.key, set) end
end

-- Notes that a tenant became idle, or has work again.
local function note_work(name, tenant, idle, busy)
  local rests = tenant[20] + tenant[6] + tenant[11] + tenant[12] + tenant[13] == 0
  if rests and (tenant.fresh or not tenant.idle) then
    if not tenant.idle then g[15] = g[15] - 1 end
    idle[#idle + 1] = now
    idle[#idle + 1] = name
  elseif tenant.idle and not rests then
    g[15] = g[15] + 1
    busy[#busy + 1] = name
  end
  tenant.fresh, tenant.idle = nil, rests
end

local function save_tenants()
  local set, rests, bare, known, idle, busy = {}, {}, {}, {}, {}, {}
  for name, tenant in pairs(tenants) do
    if tenant.dirty then
      local head, rest = write_tenant(tenant)
      set[#set + 1] = name
      set[#set + 1] = head
      if rest and rest ~= tenant.rest then
        rests[#rests + 1] = name
        rests[#rests + 1] = rest
      elseif tenant.rest and not rest then
        bare[#bare + 1] = name
      end
      if tenant.fresh then
        known[#known + 1] = 0
        known[#known + 1] = name
      end
      tenant.dirty, tenant.rest = nil, rest
      note_work(name, tenant, idle, busy)
    end
  end
  write_all('HSET', K.t, set)
  write_all('HSET', K.rest, rests)
  write_all('HDEL', K.rest, bare)
  write_all('ZADD', K.who, known)
  write_all('ZADD', K.idle, idle)
  write_all('ZREM', K.idle, busy)
end

local function save_all()
  for _, lane in pairs(lanes) do
    if lane.meta then save_lane(lane, save_slots(lane)) end
  end
  save_tenants()
  save_counts()
  if must_notify then notify() end
end

-- A list, or its returned jobs, holds fewer jobs than counted: the counters are corrected, so that
-- others continue.
local function mend_list(lane_name, name, class)
  lanes, tenants = {}, {}
  local lane = lane_of(lane_name)
  local slot, key = slot_of(lane, name), list_key(lane, name, class)
  local held, back = call('LLEN', key), call('ZCARD', back_key(lane, name, class))
  local lost = slot[5 + class] - held + slot[8 + class] - back
  set_aside(key .. ' lost ' .. lost)
  count_waiting(lane, -lost)
  slot[5 + class], slot[8 + class], slot.dirty = held, back, true
  save_all()
end
