-- Takes the jobs whose turn it is, and gives out those that may go.

-- Takes so many jobs of a class: what came back is merged with the list by index. The first writes of the
-- script; if one fails, what was taken is put back.
local undo = {}
local function fail(key, err)
  for i = #undo, 1, -1 do undo[i]() end
  error('BADKEY ' .. key .. ' ' .. err, 0)
end

local function fail_short(key, seat, class)
  for i = #undo, 1, -1 do undo[i]() end
  mend_list(lane.name, seat.name, class)
  error('BADKEY ' .. key .. ' the list is shorter than was counted', 0)
end

local function pop(key, many, into, seat, class)
  if many == 0 then return end
  local records = redis.pcall('LPOP', key, many)
  if not records then fail_short(key, seat, class) end
  if records.err then fail(key, records.err) end
  wrote = true
  undo[#undo + 1] = function()
    for i = #records, 1, -1 do redis.call('LPUSH', key, records[i]) end
  end
  local index = seat[2 + class]
  for i = 1, #records do into[#into + 1] = { index = index + i - 1, first = 0, record = records[i], class = class } end
  seat[2 + class] = index + #records
  if #records < many then fail_short(key, seat, class) end
end

local function take_merged(seat, class, many, into)
  local key, back = list_key(lane, seat.name, class), back_key(lane, seat.name, class)
  local backs = seat.backs[class]
  local in_list = seat[5 + class] + many - (backs - seat[8 + class])
  local found = call('ZRANGE', back, 0, many - 1, 'WITHSCORES')
  local head, members, from_list, at = seat[2 + class], {}, 0, 1
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
  pop(key, from_list, listed, seat, class)
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
  seat[8 + class] = backs - #members
  seat[5 + class] = in_list - from_list
  seat.backs[class] = seat[8 + class]
end

local function take(seat)
  for class = 1, 3 do
    local many = seat.todo[class]
    if many > 0 then
      local into = {}
      seat.got[class], seat.todo[class], seat.used = into, 0, seat.used or {}
      seat.used[class] = 0
      if seat.backs and seat.backs[class] > 0 then
        take_merged(seat, class, many, into)
      else
        pop(list_key(lane, seat.name, class), many, into, seat, class)
      end
    end
  end
end

-- Whether nothing but its tenant is to be asked about a job.
local function is_plain(record) return (byte(record) or 1) % 8 == 0 end

-- What becomes of a job that was taken: it goes, or it waits for its action, or it is over, or it is none.
local GOES, HELD, OVER, LATE, BROKEN = 1, 2, 3, 4, 5
local function fate(job, it)
  if is_plain(job.record) then return GOES end
  local parsed = sound_record(job.record)
  if not parsed then return BROKEN end
  job.parsed = parsed
  if parsed.deadline and parsed.deadline < it.start + origin then return LATE end
  if parsed.action then
    local action = action_of(parsed.action)
    if not action or is_over(action) then return OVER end
    job.action = action
    if action.paused == 1 then return HELD end
  end
  return GOES
end

local function hold(job, seat)
  local tenant = tenant_of(seat.name)
  call('ZADD', P .. 'h:' .. seat.name, 0, job.parsed.action .. ' ' .. entry_of(lane.name, seat.name, job))
  tenant[13] = tenant[13] + 1
  g[14] = g[14] + 1
  count(job.action, 'hd', 1)
end

local starts, entries, fields, expired = {}, {}, {}, 0
local function give(job, it)
  g[1] = g[1] + 1
  if job.first == 0 then job.first = g[1] end
  local entry = entry_of(lane.name, it.seat.name, job)
  local at = #entries + 1
  starts[at], entries[at] = pack('>I7', floor(it.start - since + 0.999)), entry
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
  local tenant = tenants[it.seat.name]
  it.seat[1] = it.seat[1] - it.charge / it.claim
  tenant[6] = tenant[6] - 1
end

-- Whatever was taken has begun, or has come to its end.
local later = {}
local function finish(it)
  local seat, class = it.seat, it.class
  seat.used[class] = seat.used[class] + 1
  local job = seat.got[class][seat.used[class]]
  local what = fate(job, it)
  if what == GOES then
    it.job = job
    return job
  end
  take_back_turn(it)
  later[#later + 1] = function()
    g[1] = g[1] + 1
    local entry = { lane = lane.name, tenant = seat.name }
    if what == HELD then return hold(job, seat) end
    if what == BROKEN then return throw_out(job) end
    if what == LATE then expired = expired + 1 end
    drop(job.parsed, entry, what == LATE and EXPIRED or ENDED_CANCELLED)
  end
end

local function save_slots()
  save_limits(rates)
  local own = {}
  for _, it in ipairs(turns) do own[#own + 1] = it.seat.limit end
  save_limits(own)
end

local function slot_again(round)
  for _, rate in ipairs(rates) do take_back(rate) end
  for _, it in ipairs(round) do
    if it.seat.limit then take_back(it.seat.limit) end
  end
  for _, it in ipairs(round) do
    if it.job then
      it.start = max(lane_start(it.cost), own_start(it.seat, it.cost))
      debit(it.seat, it.start, it.cost)
    end
  end
end

local goes = {}

-- The usual case, without limits, bounds and costs: whole turns are counted, and nothing is kept of each
-- but whose it was.
local function run_plain(many)
  local order, seats = {}, {}
  while #order < many do
    local a, b = waiting[wait_at], served[serve_at]
    if not a and looked > 0 and #ahead == most then
      a = next_candidate()
      if not a then break end
      if a == waiting[wait_at - 1] then wait_at = wait_at - 1 else serve_at = serve_at - 1 end
      a, b = waiting[wait_at], served[serve_at]
    end
    local seat
    if a and (not b or a[1] <= b[1]) then
      seat, wait_at = a, wait_at + 1
    elseif b then
      seat, serve_at = b, serve_at + 1
    else
      break
    end
    local tenant = tenants[seat.name]
    local class = seat[8] + seat[11] > 0 and 3 or seat[7] + seat[10] > 0 and 2 or 1
    local left = seat[5 + class]
    if left == 0 or seat[9] + seat[10] + seat[11] > 0 or left < ready(seat) or tenant[5] == 1 or tenant[2] > 0 then
      -- Something else than a list of one class: it stays where it is, for a round that looks closer.
      if ready(seat) > 0 then
        if seat == a then wait_at = wait_at - 1 else serve_at = serve_at - 1 end
        break
      end
    else
      local place = seat[1]
      if place > meta[1] then meta[1] = place end
      seat[1] = place + 1 / (tenant[1] * FACTOR[class])
      seat[5 + class] = left - 1
      if seat.plain then
        seat.plain = seat.plain + 1
      else
        seat.plain, seat.plain_class = 1, class
        seats[#seats + 1] = seat
      end
      order[#order + 1] = seat
      local at = #served
      while at >= serve_at and served[at][1] > seat[1] do
        served[at + 1] = served[at]
        at = at - 1
      end
      served[at + 1] = seat
    end
  end
  for _, seat in ipairs(seats) do
    local class, tenant = seat.plain_class, tenants[seat.name]
    seat.dirty, tenant.dirty, tenant[6] = true, true, tenant[6] + seat.plain
    seat.todo[class] = seat.plain
    seat[11 + class] = seat[11 + class] + seat.plain / FACTOR[class]
    seat.plain = nil
    take(seat)
  end
  if #order > 0 then lane.dirty = true end
  for _, seat in ipairs(order) do
    local class = seat.plain_class
    local used = seat.used[class] + 1
    local job = seat.got[class][used]
    if is_plain(job.record) then
      seat.used[class] = used
      goes[#goes + 1] = { seat = seat, job = job, start = since }
    else
      local it = { seat = seat, class = class, start = since, cost = 1, charge = 1, claim = tenants[seat.name][1] * FACTOR[class] }
      if finish(it) then goes[#goes + 1] = it end
    end
  end
  passed = passed + #order
  return #order
end

local function run_round(many)
  local round, seats = {}, {}
  round_now = round_now + 1
  while #round < many do
    local it = turn()
    if not it then break end
    round[#round + 1] = it
    if not it.seat.in_round then
      it.seat.in_round = true
      seats[#seats + 1] = it.seat
    end
    serve_later(it.seat)
  end
  for _, seat in ipairs(seats) do
    seat.in_round = nil
    take(seat)
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
    slot_again(round)
    local left = {}
    for at = serve_at, #served do left[#left + 1] = served[at] end
    for at = coming_at, #coming do left[#left + 1] = coming[at].seat end
    coming, coming_at = {}, 1
    table.sort(left, function(a, b) return a[1] < b[1] end)
    served, serve_at = left, 1
  end
  return #round
end

-- More rounds than one, because of jobs that do not go; a bound, so that a lane full of them does not stop
-- the server.
while #goes < most do
  local plain = not planned and meta[6] == 0 and run_plain(most - #goes) or 0
  if plain == 0 and run_round(meta[6] == 1 and 1 or most - #goes) == 0 then break end
  if #turns + passed >= most + MOST_PASSED then
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
save_slots()
if meta[7] == 1 then end_debts(lane) end
if meta[4] > 0 then soonest(max(0, meta[4] - now)) end
if #turns + passed > 0 or lane.dirty then
  save_actions()
  save_all()
end
return claim_answer(next_at, expired, before + 1, table.concat(starts), entries)
