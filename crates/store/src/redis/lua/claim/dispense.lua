-- Takes the next jobs and hands out the startable ones.

-- Takes jobs of a class: returned jobs are merged with the list by index. These are the first
-- writes of the script; if one fails, the jobs are put back.
local undo = {}
local function fail(key, err)
  for i = #undo, 1, -1 do undo[i]() end
  error('BADKEY ' .. key .. ' ' .. err, 0)
end

local function fail_short(key, slot, class)
  for i = #undo, 1, -1 do undo[i]() end
  mend_list(lane.name, slot.name, class)
  error('BADKEY ' .. key .. ' the list is shorter than was counted', 0)
end

local function pop(key, many, into, slot, class)
  if many == 0 then return end
  local records = redis.pcall('LPOP', key, many)
  if not records then fail_short(key, slot, class) end
  if records.err then fail(key, records.err) end
  wrote = true
  undo[#undo + 1] = function()
    for i = #records, 1, -1 do redis.call('LPUSH', key, records[i]) end
  end
  local index = slot[2 + class]
  for i = 1, #records do into[#into + 1] = { index = index + i - 1, first = 0, record = records[i], class = class } end
  slot[2 + class] = index + #records
  if #records < many then fail_short(key, slot, class) end
end

local function take_merged(slot, class, many, into)
  local key, back = list_key(lane, slot.name, class), back_key(lane, slot.name, class)
  local backs = slot.backs[class]
  local in_list = slot[5 + class] + many - (backs - slot[8 + class])
  local found = call('ZRANGE', back, 0, many - 1, 'WITHSCORES')
  local head, members, from_list, at = slot[2 + class], {}, 0, 1
  local order = {}
  for _ = 1, many do
    local score = tonumber(found[at + 1])
    if score and (score <= head + from_list or from_list >= in_list) then
      members[#members + 1] = found[at]
      order[#order + 1] = { index = score, first = unpacked('>I6', found[at]), record = sub(found[at], 7), class = class }
      at = at + 2
    else
      from_list = from_list + 1
      order[#order + 1] = false
    end
  end
  local listed, next_listed = {}, 1
  pop(key, from_list, listed, slot, class)
  for _, it in ipairs(order) do
    if it then
      into[#into + 1] = it
    else
      into[#into + 1] = listed[next_listed]
      next_listed = next_listed + 1
    end
  end
  if #members > 0 then
    write_all('ZREM', back, members)
    undo[#undo + 1] = function()
      for _, it in ipairs(order) do
        if it then redis.call('ZADD', back, it.index, pack('>I6', it.first) .. it.record) end
      end
    end
  end
  slot[8 + class] = backs - #members
  slot[5 + class] = in_list - from_list
  slot.backs[class] = slot[8 + class]
end

local function take(slot)
  for class = 1, 3 do
    local many = slot.todo[class]
    if many > 0 then
      local into = {}
      slot.got[class], slot.todo[class], slot.used = into, 0, slot.used or {}
      slot.used[class] = 0
      if slot.backs and slot.backs[class] > 0 then
        take_merged(slot, class, many, into)
      else
        pop(list_key(lane, slot.name, class), many, into, slot, class)
      end
    end
  end
end

-- Returns true if only the tenant decides about the job.
local function is_plain(record) return (byte(record) or 1) % 8 == 0 end

-- Result of checking a taken job: it starts, waits for its action, is over, is too late, or is
-- malformed.
local GOES, HELD, OVER, LATE, BROKEN = 1, 2, 3, 4, 5
local function fate(job)
  if is_plain(job.record) then return GOES end
  local parsed = sound_record(job.record)
  if not parsed then return BROKEN end
  job.parsed = parsed
  if parsed.deadline and parsed.deadline < now then return LATE end
  if parsed.action then
    local action = action_of(parsed.action)
    if not action or is_cut_short(action) then return OVER end
    job.action = action
    if action.paused == 1 then return HELD end
  end
  return GOES
end

local function hold_back(job, slot)
  local tenant = tenant_of(slot.name)
  call('ZADD', P .. 'h:' .. slot.name, 0, job.parsed.action .. ' ' .. entry_of(lane.name, slot.name, job))
  tenant[13] = tenant[13] + 1
  g[14] = g[14] + 1
  count(job.action, 'hd', 1)
end

local entries, fields, expired = {}, {}, 0
local function give(job, it)
  g[1] = g[1] + 1
  if job.first == 0 then job.first = g[1] end
  job.holds = it.count
  local entry = entry_of(lane.name, it.slot.name, job)
  local at = #entries + 1
  entries[at] = entry
  fields[2 * at - 1], fields[2 * at] = pack(CLAIM_FORM, g[1]), entry
  if job.action then
    count(job.action, 'q', -1)
    count(job.action, 'fl', 1)
    if job.action.started == 0 then job.action.started = now end
  end
end

local function throw_out(job)
  set_aside(job.record)
  count_waiting(lane, -1)
end

local function take_back_turn(it)
  local tenant = tenants[it.slot.name]
  it.slot[1] = it.slot[1] - it.charge / it.claim
  tenant[6] = tenant[6] - 1
  started = started - min(it.cost, global)
  if it.count then
    starts.let_go(it.count, it.cost)
    starts.space(it.count, -it.cost)
  end
end

-- Every taken job has started or ended.
local later = {}
local function finish(it)
  local slot, class = it.slot, it.class
  slot.used[class] = slot.used[class] + 1
  local job = slot.got[class][slot.used[class]]
  local what = fate(job)
  if what == GOES then
    it.job = job
    return job
  end
  take_back_turn(it)
  later[#later + 1] = function()
    g[1] = g[1] + 1
    local entry = { lane = lane.name, tenant = slot.name }
    if what == HELD then return hold_back(job, slot) end
    if what == BROKEN then return throw_out(job) end
    if what == LATE then expired = expired + 1 end
    drop(job.parsed, entry, what == LATE and EXPIRED or ENDED_CANCELLED)
  end
end

local goes = {}

-- The usual case, without limits, bounds and costs: whole rounds are counted, and only the owner of
-- each turn is stored.
local function run_plain(many)
  local order, slots = {}, {}
  while #order < many do
    local a, b = waiting[wait_at], served[serve_at]
    if not a and looked > 0 and #ahead == most then
      a = next_candidate()
      if not a then break end
      if a == waiting[wait_at - 1] then wait_at = wait_at - 1 else serve_at = serve_at - 1 end
      a, b = waiting[wait_at], served[serve_at]
    end
    local slot
    if a and (not b or a[1] <= b[1]) then
      slot, wait_at = a, wait_at + 1
    elseif b then
      slot, serve_at = b, serve_at + 1
    else
      break
    end
    local tenant = tenants[slot.name]
    local class = slot[8] + slot[11] > 0 and 3 or slot[7] + slot[10] > 0 and 2 or 1
    local left = slot[5 + class]
    if left == 0 or slot[9] + slot[10] + slot[11] > 0 or left < ready(slot) or tenant[5] == 1 or tenant[2] > 0 then
      -- The list holds more than one class: it stays for a round with full checks.
      if ready(slot) > 0 then
        if slot == a then wait_at = wait_at - 1 else serve_at = serve_at - 1 end
        break
      end
    else
      local place = slot[1]
      if place > meta[1] then meta[1] = place end
      slot[1] = place + 1 / (tenant[1] * FACTOR[class])
      slot[5 + class] = left - 1
      if slot.plain then
        slot.plain = slot.plain + 1
      else
        slot.plain, slot.plain_class = 1, class
        slots[#slots + 1] = slot
      end
      order[#order + 1] = slot
      local at = #served
      while at >= serve_at and served[at][1] > slot[1] do
        served[at + 1] = served[at]
        at = at - 1
      end
      served[at + 1] = slot
    end
  end
  for _, slot in ipairs(slots) do
    local class, tenant = slot.plain_class, tenants[slot.name]
    slot.dirty, tenant.dirty, tenant[6] = true, true, tenant[6] + slot.plain
    slot.todo[class] = slot.plain
    slot[11 + class] = slot[11 + class] + slot.plain / FACTOR[class]
    slot.plain = nil
    take(slot)
  end
  if #order > 0 then lane.dirty = true end
  for _, slot in ipairs(order) do
    local class = slot.plain_class
    local used = slot.used[class] + 1
    local job = slot.got[class][used]
    if is_plain(job.record) then
      slot.used[class] = used
      goes[#goes + 1] = { slot = slot, job = job }
    else
      local it = { slot = slot, class = class, cost = 1, charge = 1, claim = tenants[slot.name][1] * FACTOR[class] }
      if finish(it) then goes[#goes + 1] = it end
    end
  end
  passed = passed + #order
  return #order
end

local function run_round(many)
  local round, slots = {}, {}
  while #round < many do
    local it = turn()
    if not it then break end
    round[#round + 1] = it
    if not it.slot.in_round then
      it.slot.in_round = true
      slots[#slots + 1] = it.slot
    end
    serve_later(it.slot)
  end
  for _, slot in ipairs(slots) do
    slot.in_round = nil
    take(slot)
  end
  local gone = 0
  for _, it in ipairs(round) do
    local job = finish(it)
    if job then
      goes[#goes + 1] = it
    else
      gone = gone + 1
    end
  end
  if gone > 0 then
    local left = {}
    for at = serve_at, #served do left[#left + 1] = served[at] end
    table.sort(left, function(a, b) return a[1] < b[1] end)
    served, serve_at = left, 1
  end
  return #round
end

-- Jobs that may not start need further rounds. A bound keeps a lane full of them from blocking the
-- server.
while #goes < most do
  local is_plain_round = not planned and meta[6] == 0 and (lane.wanted or 1) == 1
  local plain = is_plain_round and run_plain(most - #goes) or 0
  if plain == 0 and run_round(meta[6] == 1 and 1 or most - #goes) == 0 then break end
  if #turns + passed >= most + MAX_PASSED then
    soonest(0)
    break
  end
end

local before = g[1]
for _, it in ipairs(goes) do give(it.job, it) end
if #fields > 0 then
  for from = 1, #fields, CHUNK do
    local done = redis.pcall('HSET', session_key, unpack(fields, from, min(from + CHUNK - 1, #fields)))
    if type(done) == 'table' and done.err then fail(session_key, done.err) end
  end
  lease_session()
end
for _, act in ipairs(later) do act() end
if #goes > 0 then
  count_waiting(lane, -#goes)
  g[5] = g[5] + #goes
end
if #parked > 0 then
  write_all('ZADD', lane.parked, parked)
  for i = 1, #parked, 2 do wake_at(lane, parked[i]) end
end
-- Others look for what this claim had no place for.
if has_returned and #goes == most then must_notify = true end
if started > 0 and all then starts.count_at(all, now, started) end
starts.save()
if meta[7] == 1 then end_debts(lane) end
if meta[4] > 0 then soonest(max(0, meta[4] - now)) end
if #turns + passed > 0 or lane.dirty then
  save_actions()
  save_all()
end
return claim_answer(next_at, expired, before + 1, entries)
