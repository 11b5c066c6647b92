-- Takes a batch: the fast path, for plain jobs of one lane.
--
-- ARGV: prefix, epoch, max waiting jobs, action, 1 if it is closed with this, its timeout and its
-- keep, number of jobs, 1 if names or start times must be checked, then groups of one lane, tenant
-- and class in one text: names of lane and tenant, class, mark, size; the positions of all jobs in
-- the batch; their start times, if any has one; the action's note; then the records, group by
-- group.
--
-- A tenant with a slot keeps its place, so only its list and its number of jobs change. A tenant
-- without one gets a slot if it has no rule, no bound and no cooldown. Everything else takes the
-- general path, before anything is written.

-- The general path.
local general
local GROUP_FORM = '>Bc0Bc0BBI4'
-- Marks of a group: a job has an action or a deadline; costs differ from 1.
local COSTS_DIFFER = 2

local queue_max, action_name, last, total, careful, pushed

-- The groups, as the general path reads them.
local function read_groups()
  local text, at, first, groups = ARGV[10], 1, 14, {}
  while at <= #text do
    local lane, tenant, class, mark, size, after = unpacked(GROUP_FORM, text, at)
    groups[#groups + 1] = { lane = lane, tenant = tenant, class = class, mark = mark, size = size, first = first }
    at, first = after, first + size
  end
  return groups
end

-- Returns the lane, its fields to read, and class and size of each group; or nothing.
local function plain_groups()
  local text, at, many, lane, ask, classes, sizes = ARGV[10], 1, 0, nil, { '' }, {}, {}
  while at <= #text do
    local of, tenant, class, mark, size, after = unpacked(GROUP_FORM, text, at)
    if mark > 0 or of ~= (lane or of) then return end
    many, lane, at = many + 1, of, after
    ask[many + 1], classes[many], sizes[many] = tenant, class, size
  end
  return lane_of(lane), ask, classes, sizes
end

-- If one fails, those before it are undone and nothing has happened.
local function undo(key, answer)
  for i = #pushed, 1, -2 do redis.call('RPOP', pushed[i - 1], pushed[i]) end
  error('BADKEY ' .. key .. ' ' .. answer.err, 0)
end

local function push(key, list, first, last_one)
  for from = first, last_one, CHUNK do
    local to = min(from + CHUNK - 1, last_one)
    local answer = redis.pcall('RPUSH', key, unpack(list, from, to))
    if type(answer) == 'table' then undo(key, answer) end
    wrote = true
    pushed[#pushed + 1] = key
    pushed[#pushed + 1] = to - from + 1
  end
end

-- Returns the heads of tenants without a slot, if none of them has a rule or a bound, and none
-- comes twice.
local function heads_of_new(names)
  local seen, unknown, heads = {}, {}, read_all(K.t, names)
  for i = 1, #names do
    local name = names[i]
    if seen[name] then return end
    seen[name] = true
    if not heads[i] then
      unknown[#unknown + 1] = name
    elseif byte(heads[i]) > 0 then
      return
    end
  end
  if usual[2] > 0 then return end
  if #unknown > 0 then
    local rules = read_all(K.rules, unknown)
    for i = 1, #unknown do
      if rules[i] then return end
    end
  end
  return heads
end

-- Returns the lead over the clock with which each tenant left, and the tenants that had one.
local function debts(lane, names)
  local places, owing = {}, {}
  if lane.meta[7] == 0 then return places, owing end
  each_chunk(names, CHUNK, function(first, last_one)
    local found = call('ZMSCORE', lane.owed, unpack(names, first, last_one))
    for i = first, last_one do
      local owed = found[i - first + 1]
      if owed then places[i], owing[#owing + 1] = tonumber(owed), names[i] end
    end
  end)
  return places, owing
end

-- Returns true if any tenant is in a cooldown.
local function any_parked(lane, names)
  local parked = false
  if lane.meta[4] == 0 then return false end
  each_chunk(names, CHUNK, function(first, last_one)
    for _, till in ipairs(call('ZMSCORE', lane.parked, unpack(names, first, last_one))) do
      parked = parked or till
    end
  end)
  return parked
end

-- Returns tenants as they are once they have their slots: their heads, their places, the unknown
-- ones, the idle ones, the indebted ones; or nothing.
local function newcomers(lane, names)
  local heads = heads_of_new(names)
  if not heads or any_parked(lane, names) then return end
  local places, owing = debts(lane, names)
  local new = { known = {}, order = {}, who = {}, woken = {}, owing = owing, places = places, active = 0 }
  local known, order, who, woken, clock = new.known, new.order, new.who, new.woken, lane.meta[1]
  for i = 1, #names do
    local name, head = names[i], heads[i]
    local _, claim, slots, flight, done, busy = 0, 0, 0, 0, 0, 0
    if head then
      _, claim, slots, flight, done, busy = unpacked(HEAD_FORM, head)
    else
      who[#who + 1] = '0'
      who[#who + 1] = name
    end
    if slots + flight == 0 then
      -- An idle tenant starts its counts again.
      done, busy, new.active = 0, 0, new.active + 1
      if head then woken[#woken + 1] = name end
    end
    places[i] = max(places[i] or 0, clock)
    order[2 * i - 1], order[2 * i] = score(places[i]), name
    known[2 * i - 1], known[2 * i] = name, pack(HEAD_FILLED, 0, claim, slots + 1, flight, done, busy, HEAD_FILL)
  end
  return new
end

local function save_newcomers(lane, new)
  write_all('ZADD', lane.fair, new.order)
  write_all('HSET', K.t, new.known)
  write_all('ZADD', K.who, new.who)
  write_all('ZREM', K.idle, new.woken)
  write_all('ZREM', lane.owed, new.owing)
  g[15] = g[15] + new.active
end

-- Returns the new slots, the jobs that waited before each group, and the tenants without a slot; or
-- nothing.
local function plain_slots(lane, found, ask, classes, sizes)
  local set, befores, names, at_of = {}, {}, {}, {}
  for i = 1, #classes do
    local packed, jobs = found[i + 1], 0
    set[2 * i - 1] = ask[i + 1]
    if packed then
      if #packed ~= PLAIN_SIZE then return end
      local mark, place, index, had = unpacked(PLAIN_SLOT, packed)
      if mark % 4 ~= classes[i] or mark > 7 then return end
      set[2 * i], jobs = pack(PLAIN_SLOT, mark, place, index, had + sizes[i]), had
    else
      names[#names + 1], at_of[#at_of + 1] = ask[i + 1], i
    end
    befores[i] = jobs
  end
  if #names == 0 then return set, befores end
  local new = newcomers(lane, names)
  if not new then return end
  for n = 1, #names do
    local i = at_of[n]
    set[2 * i] = pack(PLAIN_SLOT, classes[i], new.places[n], g[1], sizes[i])
  end
  return set, befores, new
end

local function push_plain(lane, ask, classes, sizes)
  local begins, first = { lists_of(lane, 1), lists_of(lane, 2), lists_of(lane, 3) }, 14
  for i = 1, #classes do
    local key, size = begins[classes[i]] .. ask[i + 1], sizes[i]
    if size == 1 then
      local answer = redis.pcall('RPUSH', key, ARGV[first])
      if type(answer) == 'table' then undo(key, answer) end
      wrote = true
      local at = #pushed
      pushed[at + 1], pushed[at + 2] = key, 1
    else
      push(key, ARGV, first, first + size - 1)
    end
    first = first + size
  end
end

local function submit_plain()
  if careful or action_name ~= '' or total == 0 then return end
  local lane, ask, classes, sizes = plain_groups()
  if not lane then return end
  local found = read_all(lane.key, ask)
  if not found[1] then return end
  take_meta(lane, found[1])
  local set, befores, new = plain_slots(lane, found, ask, classes, sizes)
  if not set then return end
  push_plain(lane, ask, classes, sizes)
  if new then save_newcomers(lane, new) end
  count_waiting(lane, total)
  save_lane(lane, set)
  save_counts()
  if new then notify() end
  return { g[2], g[15], 0, befores }
end

function steps.submit()
  queue_max, action_name, last, total = tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1', tonumber(ARGV[8])
  careful, pushed = ARGV[9] == '1' or g[2] + total > queue_max, {}
  return submit_plain() or general()
end
