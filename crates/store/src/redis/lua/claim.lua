-- Gives out jobs of a lane in fair order.
--
-- ARGV: prefix, epoch, lane, session, most, lease, 1 if there is a plan, guard, horizon, units and window of
-- each tenant's rate, then units and window of each rate of the lane.
--
-- Who goes is reckoned from counts alone, on the understanding that a job costs 1; then each tenant's jobs
-- are taken with one command. Where costs differ, one job is taken after the other instead.

local lane, session, most, lease = lane_of(ARGV[3]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local planned, guard, horizon = ARGV[7] == '1', tonumber(ARGV[8]), tonumber(ARGV[9])
local session_key = P .. 's:' .. session
local FURTHEST = 2 ^ 32

-- A session that was lost begins anew; what it had stays for the reaper under a name that nobody uses.
local expiry = call('ZSCORE', k_sessions, session)
if expiry and tonumber(expiry) <= now and call('EXISTS', session_key) == 1 then
  g[1] = g[1] + 1
  local old = session .. ' ' .. g[1]
  call('RENAME', session_key, P .. 's:' .. old)
  call('ZADD', k_sessions, expiry, old)
end

local function answer(next, expired, jobs)
  call('ZADD', k_sessions, now + lease, session)
  return { next and max(0, floor(next)) or -1, expired, unpack(jobs) }
end

-- Every candidate of the first look, and the lane itself.
local ahead = call('ZRANGE', lane.fair, 0, most - 1)
load_seats(lane, ahead)
local meta = lane.meta

if meta[3] > now then return answer(meta[3] - now, 0, {}) end

-- Limits: where the next slot of each lies, from the queue's beginning, and how far apart slots are. A job
-- of cost c keeps c steps free after it and c - 1 before it: then no window, wherever it lies, holds more
-- than its units. Whatever nobody used in time is lost.
local since = now - origin
local rates, widest = {}, 0
local slot_names = {}
for at = 12, #ARGV, 2 do
  local window = tonumber(ARGV[at + 1])
  widest = max(widest, window)
  rates[#rates + 1] = { step = (window + guard) / tonumber(ARGV[at]) }
  slot_names[#slot_names + 1] = 'L' .. #rates .. ' ' .. lane.name
end
local tenant_units, tenant_window = tonumber(ARGV[10]), tonumber(ARGV[11])
widest = max(widest, tenant_window)
local doubt = tonumber(epoch[3])
if planned and doubt > 0 and now < doubt + widest + guard then
  return answer(doubt + widest + guard - now, 0, {})
end
if #rates > 0 then
  local found = call('ZMSCORE', k_slots, unpack(slot_names))
  for i, rate in ipairs(rates) do rate.at = tonumber(found[i]) or 0 end
end

-- Whoever was parked, and whatever waited for its time.
local function return_due()
  local more = false
  local due = call('ZRANGEBYSCORE', lane.parked, '-inf', now, 'LIMIT', 0, 500)
  if #due > 0 then
    call('ZREM', lane.parked, unpack(due))
    load_seats(lane, due)
    for _, name in ipairs(due) do
      local seat = lane.seats[name]
      if seat.fresh then
        lane.seats[name] = nil
      elseif seat[2] == 1 then
        seat[2] = 2
        arrange(lane, seat)
      end
    end
    more = #due == 500
  end
  due = call('ZRANGEBYSCORE', lane.delayed, '-inf', now, 'LIMIT', 0, 500)
  for _, packed in ipairs(due) do
    local entry = undelay(packed)
    give_back(lane, entry.tenant, entry)
  end
  more = more or #due == 500
  local next = more and now or nil
  for _, key in ipairs({ lane.parked, lane.delayed }) do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[2] then next = min(next or tonumber(first[2]), tonumber(first[2])) end
  end
  meta[4], lane.dirty = next or 0, true
  -- Written at once: whatever happens below, this has happened.
  save_actions()
  save_all()
  ahead = call('ZRANGE', lane.fair, 0, most - 1)
  load_seats(lane, ahead)
end
if meta[4] > 0 and meta[4] <= now then return_due() end
load_tenants(ahead)

-- Doubles lose their fine steps where they are large, so places are counted from the clock again before
-- that: once in four thousand million services of the smallest claim, and then for all tenants at once.
if meta[1] > FURTHEST or (#ahead > 0 and lane.seats[ahead[1]][1] > FURTHEST) then
  local by = max(meta[1], lane.seats[ahead[1]] and lane.seats[ahead[1]][1] or 0)
  for from = 0, call('ZCARD', lane.fair) - 1, CHUNK do
    local some = call('ZRANGE', lane.fair, from, from + CHUNK - 1)
    load_seats(lane, some)
  end
  local cursor = '0'
  repeat
    local found = call('HSCAN', lane.key, cursor, 'COUNT', CHUNK)
    cursor = found[1]
    for i = 1, #found[2], 2 do
      local name = found[2][i]
      if name ~= '' then
        local seat = seat_of(lane, name)
        if not seat.shifted then
          seat[1], seat.dirty, seat.shifted = max(0, seat[1] - by), true, true
        end
      end
    end
  until cursor == '0'
  call('DEL', lane.owed)
  meta[1], meta[7], lane.dirty = 0, 0, true
  save_all()
  load_seats(lane, ahead)
end

-- Those that have not been served yet, by place, and those that have, by the place they came to.
local waiting, served, wait_at, serve_at, looked = {}, {}, 1, 1, 0

local function rate_of(seat)
  if not planned or seat.step ~= nil then return end
  local tenant = tenants[seat.name]
  local units, window, name = tenant[3], tenant[4], 'T ' .. seat.name
  if units == 0 then units, window, name = tenant_units, tenant_window, 'P ' .. lane.name .. ' ' .. seat.name end
  if units == 0 then
    seat.step = false
    return
  end
  seat.step = (window + guard) / units
  seat.slot_name = name
end

local function look(names)
  local slotted, ask = {}, {}
  for _, name in ipairs(names) do
    local seat = lane.seats[name]
    if not seat.fresh and seat[2] == 0 then
      waiting[#waiting + 1] = seat
      seat.todo, seat.got = { 0, 0, 0 }, { {}, {}, {} }
      rate_of(seat)
      if seat.step then
        slotted[#slotted + 1] = seat
        ask[#ask + 1] = seat.slot_name
      end
    end
  end
  each_chunk(ask, CHUNK, function(first, last)
    local found = call('ZMSCORE', k_slots, unpack(ask, first, last))
    for i = first, last do slotted[i].slot = tonumber(found[i - first + 1]) or 0 end
  end)
  looked = looked + #names
end
look(ahead)

local function serve_later(seat)
  local at = #served
  while at >= serve_at and served[at][1] > seat[1] do
    served[at + 1] = served[at]
    at = at - 1
  end
  served[at + 1] = seat
end

local next_at
local function soonest(at) next_at = min(next_at or at, at) end
local parked = {}

local function park(seat, at)
  seat[2], seat.dirty = 1, true
  parked[#parked + 1] = at
  parked[#parked + 1] = seat.name
end

local function best_class(seat)
  if seat[8] + seat[11] > 0 then return 3 end
  if seat[7] + seat[10] > 0 then return 2 end
  return 1
end

-- The class whose turn it is among those of a tenant that has several.
local function class_of(seat, best)
  local class = best
  for c = best - 1, 1, -1 do
    if seat[5 + c] + seat[8 + c] > 0 and seat[11 + c] < seat[11 + class] then class = c end
  end
  return class
end

-- The cost of the job that would go, where costs differ; one job is taken at a time then.
local function cost_of(seat, class)
  if meta[6] == 0 then return 1 end
  local back = seat[8 + class] > 0 and call('ZRANGE', back_key(lane, seat.name, class), 0, 0, 'WITHSCORES')
  local record
  if back and (seat[5 + class] == 0 or tonumber(back[2]) <= seat[2 + class]) then
    record = sub(back[1], 7)
  else
    record = call('LINDEX', list_key(lane, seat.name, class), 0)
  end
  return record and parse_record(record).cost or 1
end

local function lane_start(cost)
  local start = since
  if cost > 0 then
    for _, rate in ipairs(rates) do start = max(start, rate.at + rate.step * (cost - 1)) end
  end
  return start
end

local function debit(seat, start, cost)
  if cost == 0 then return end
  for _, rate in ipairs(rates) do rate.at = start + rate.step * cost end
  if seat.step then seat.slot = start + seat.step * cost end
end

local function next_candidate()
  if wait_at > #waiting and looked > 0 and #ahead == most then
    ahead = call('ZRANGE', lane.fair, looked, looked + most - 1)
    load_seats(lane, ahead)
    load_tenants(ahead)
    look(ahead)
  end
  local a, b = waiting[wait_at], served[serve_at]
  if a and (not b or a[1] <= b[1]) then
    wait_at = wait_at + 1
    return a
  elseif b then
    serve_at = serve_at + 1
    return b
  end
end

-- Whose turn it is: what goes, and where its start lies.
local function next_turn()
  while true do
    local seat = next_candidate()
    if not seat then return end
    local tenant = tenants[seat.name]
    if ready(seat) == 0 then
      -- It has no more; it leaves when all is written.
    elseif tenant[5] == 1 or (tenant[2] > 0 and tenant[6] >= tenant[2]) then
      seat[2], seat.dirty = 2, true
    else
      local best = best_class(seat)
      local class = best > 1 and class_of(seat, best) or best
      local cost = cost_of(seat, class)
      local start = lane_start(cost)
      if start - since > horizon then
        soonest(start - since - horizon)
        return
      end
      local own = seat.step and cost > 0 and seat.slot + seat.step * (cost - 1) or since
      if own > (#rates > 0 and start or since + horizon) then
        park(seat, (#rates > 0 and own or own - horizon) + origin)
      else
        return { seat = seat, class = class, best = best, cost = cost, start = max(start, own) }
      end
    end
  end
end

-- One turn: the seat moves on by the cost over its claim.
local turns = {}
local function turn()
  local it = next_turn()
  if not it then return end
  local seat, class, tenant = it.seat, it.class, tenants[it.seat.name]
  it.claim, it.charge = tenant[1] * FACTOR[it.best], max(1, it.cost)
  meta[1], lane.dirty = max(meta[1], seat[1]), true
  seat[1], seat.dirty = seat[1] + it.charge / it.claim, true
  seat[11 + class] = seat[11 + class] + it.charge / FACTOR[class]
  -- Counted as what came back, if anything did; when the jobs are taken it is known which it was.
  if seat[8 + class] > 0 then
    seat.backs = seat.backs or { seat[9], seat[10], seat[11] }
    seat[8 + class] = seat[8 + class] - 1
  else
    seat[5 + class] = seat[5 + class] - 1
  end
  seat.todo[class] = seat.todo[class] + 1
  tenant[6], tenant.dirty = tenant[6] + 1, true
  debit(seat, it.start, it.cost)
  turns[#turns + 1] = it
  return it
end

-- Takes so many jobs of a class: what came back is merged with the list by index. The first writes of the
-- script; if one fails, what was taken is put back.
local undo = {}
local function fail(key, err)
  for i = #undo, 1, -1 do undo[i]() end
  error('BADKEY ' .. key .. ' ' .. err, 0)
end

local function pop(key, many, into, seat, class)
  if many == 0 then return end
  local records = redis.pcall('LPOP', key, many)
  if not records or records.err then fail(key, records and records.err or 'the list is gone') end
  undo[#undo + 1] = function()
    for i = #records, 1, -1 do redis.call('LPUSH', key, records[i]) end
  end
  local index = seat[2 + class]
  for i = 1, #records do into[#into + 1] = { index = index + i - 1, first = 0, record = records[i], class = class } end
  seat[2 + class] = index + #records
  if #records < many then fail(key, 'the list is shorter than was counted') end
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

-- What becomes of a job that was taken: it goes, or it waits for its action, or it is over.
local GOES, HELD, OVER, LATE = 1, 2, 3, 4
local function fate(job, it)
  local flags = byte(job.record)
  if flags % 8 == 0 then return GOES end
  job.parsed = parse_record(job.record)
  local parsed = job.parsed
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

local given, expired = {}, 0
local fields = {}
local function give(job, it)
  g[1] = g[1] + 1
  if job.first == 0 then job.first = g[1] end
  local entry = entry_of(lane.name, it.seat.name, job)
  fields[#fields + 1] = g[1]
  fields[#fields + 1] = entry
  given[#given + 1] = floor(it.start - since + 0.999)
  given[#given + 1] = g[1]
  given[#given + 1] = entry
  if job.action then
    count(job.action, 'q', -1)
    count(job.action, 'fl', 1)
    if job.action.started == 0 then job.action.started = now end
  end
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
    if what == LATE then expired = expired + 1 end
    drop(job.parsed, entry, what == LATE and EXPIRED or ENDED_CANCELLED)
  end
end

local function save_slots()
  local set = {}
  for i, rate in ipairs(rates) do
    set[#set + 1] = rate.at
    set[#set + 1] = slot_names[i]
  end
  for _, it in ipairs(turns) do
    local seat = it.seat
    if seat.step and not seat.saved then
      seat.saved = true
      set[#set + 1] = seat.slot
      set[#set + 1] = seat.slot_name
    end
  end
  if #set > 0 then write_all('ZADD', k_slots, set) end
end

-- Slots are reckoned again for those that go, so that those that do not go leave no gap.
local function remember_slots()
  for _, rate in ipairs(rates) do rate.was = rate.at end
  for _, list in ipairs({ waiting, served }) do
    for _, seat in pairs(list) do seat.slot_was = seat.slot end
  end
end

local function slot_again(round)
  for _, rate in ipairs(rates) do rate.at = rate.was end
  for _, it in ipairs(round) do it.seat.slot = it.seat.slot_was end
  for _, it in ipairs(round) do
    if it.job then
      local own = it.seat.step and it.cost > 0 and it.seat.slot + it.seat.step * (it.cost - 1) or since
      it.start = max(lane_start(it.cost), own)
      debit(it.seat, it.start, it.cost)
    end
  end
end

local goes = {}
local function run_round(many)
  local round, seats = {}, {}
  if #rates > 0 or planned then remember_slots() end
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
    table.sort(left, function(a, b) return a[1] < b[1] end)
    served, serve_at = left, 1
  end
  return #round
end

-- A few rounds more than needed, because of jobs that do not go; a bound, so that a lane full of them
-- does not stop the server.
local rounds = meta[6] == 1 and 2 * most or 8
for _ = 1, rounds do
  if #goes >= most then break end
  if run_round(meta[6] == 1 and 1 or most - #goes) == 0 then break end
  if #turns >= 4 * most then
    soonest(0)
    break
  end
end

for _, it in ipairs(goes) do give(it.job, it) end
if #fields > 0 then
  for from = 1, #fields, CHUNK do
    local done = redis.pcall('HSET', session_key, unpack(fields, from, min(from + CHUNK - 1, #fields)))
    if type(done) == 'table' and done.err then fail(session_key, done.err) end
  end
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
if meta[7] == 1 then
  call('ZREMRANGEBYSCORE', lane.owed, '-inf', meta[1])
end
if meta[4] > 0 then soonest(max(0, meta[4] - now)) end
if #turns > 0 or lane.dirty then
  save_actions()
  save_all()
end
return answer(next_at, expired, given)
