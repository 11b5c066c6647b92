-- Limits that machines share: where the next start of each may lie, from the queue's beginning.
--
-- Starts are kept apart: a window's worth over the window, or over a second of it, for a quantity of an hour
-- is there to be used. A job of cost c keeps c steps free after it and c - 1 before it. For a window of up
-- to a second that is all, and exact: no window, wherever it lies, holds more than its units.
--
-- Of a longer one it is remembered what was used, in runs of starts that lie close together: when a run
-- began, when its last start was, and how many units had started by then in all. What would be one unit too
-- many starts when that many units before it have left the window. A run leaves it when its last start does,
-- late by a thousandth of the window, and so a limit of any size is remembered by a thousand runs.
--
-- Whatever nobody used in time is lost. A job that costs more than there ever is uses all of it: its worker
-- knows that it can never go.

local guard, horizon, since
local SPREAD, RUNS, AT_ONCE, RUN_FORM = 1000000, 1000, 16, '>ddd'
-- A server that was replaced knows all but the last moments: that is no reason to wait for an hour.
local LONGEST_DOUBT = 60000000

-- `bare` keeps no distance, and remembers what was used of a short window, too.
local function limit_of(name, units, window, counts, bare)
  local limit = { name = name, units = units, window = window, calls = counts == 'calls', at = 0 }
  if bare then
    limit.step = 0
  else
    limit.step = (window > SPREAD and SPREAD or window + guard) / units
  end
  if bare or window > SPREAD then
    limit.stays, limit.key = window + guard, P .. 'u:' .. name
  end
  return limit
end

-- The limits of a plan, which begins at this argument.
local function read_plan(first, bare)
  guard, horizon, since = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), now - origin
  local limits = {}
  for at = first + 2, #ARGV, 4 do
    local counts = ARGV[at + 3] == '0' and 'calls' or 'cost'
    limits[#limits + 1] = limit_of(ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), counts, bare)
  end
  return limits
end

-- What a job of this cost uses of a limit.
local function units_of(limit, cost)
  return limit.calls and 1 or min(cost, limit.units)
end

-- Until when a limit stays closed, because nobody knows what was used of it before.
local function closed_until(limit)
  local until_then = 0
  if doubt > 0 then until_then = doubt + limit.window + guard - origin end
  if moved > 0 then until_then = max(until_then, moved + min(limit.window, LONGEST_DOUBT) + guard - origin) end
  return until_then
end

-- The newest run is kept apart from the older ones, because it may go on.
local function open_runs(limit)
  local many = call('LLEN', limit.key)
  limit.older, limit.runs, limit.first = max(0, many - 1), {}, 1
  limit.newest, limit.found, limit.used = {}, many > 0, 0
  if limit.found then
    local begun, ended, used = unpacked(RUN_FORM, call('LINDEX', limit.key, -1))
    limit.newest[1], limit.used = { begun, ended, used }, used
  end
end

-- Slots are reckoned again for those that go, so that those that do not go leave no gap.
local function remember(limit)
  local many = limit.stays and #limit.newest
  limit.was = { limit.at, limit.used, limit.first, many, many and limit.newest[many] }
end

-- Where the next slots of these limits lie.
local function read_limits(limits)
  each_chunk(limits, CHUNK, function(first, last)
    local names = {}
    for i = first, last do names[#names + 1] = limits[i].name end
    local found = call('ZMSCORE', K.slots, unpack(names))
    for i = first, last do
      limits[i].at = max(tonumber(found[i - first + 1]) or 0, closed_until(limits[i]))
      if limits[i].stays then open_runs(limits[i]) end
      remember(limits[i])
    end
  end)
end

local function run_at(limit, place)
  if place > limit.older then return limit.newest[place - limit.older] end
  local runs = limit.runs
  while place > #runs do
    local some = call('LRANGE', limit.key, #runs, min(#runs + AT_ONCE, limit.older) - 1)
    for i = 1, #some do runs[#runs + 1] = { unpacked(RUN_FORM, some[i]) } end
  end
  return runs[place]
end

-- The place of the run that has to leave before so much more may start.
local function run_before(limit, units)
  local past, place = limit.used + units - limit.units, limit.first
  if past <= 0 then return end
  while run_at(limit, place)[3] < past do place = place + 1 end
  return place
end

-- When a job of this cost finds room.
local function room_at(limit, cost)
  local units = units_of(limit, cost)
  if units == 0 then return 0 end
  local at, place = limit.at + limit.step * (units - 1), limit.stays and run_before(limit, units)
  return place and max(at, run_at(limit, place)[2] + limit.stays) or at
end

local function spend(limit, start, cost)
  local units = units_of(limit, cost)
  if units == 0 then return end
  limit.at, limit.dirty = start + limit.step * units, true
  if not limit.stays then return end
  limit.first = run_before(limit, units) or limit.first
  limit.used = limit.used + units
  local newest = limit.newest
  local run = newest[#newest]
  if run and start - run[1] < limit.stays / RUNS then
    newest[#newest] = { run[1], start, limit.used }
  else
    newest[#newest + 1] = { start, start, limit.used }
  end
end

local function take_back(limit)
  local was = limit.was
  limit.at = was[1]
  if not limit.stays then return end
  limit.used, limit.first = was[2], was[3]
  for i = #limit.newest, was[4] + 1, -1 do limit.newest[i] = nil end
  limit.newest[was[4]] = was[5]
end

local function save_runs(limit)
  local key, gone, packed = limit.key, min(limit.first - 1, limit.older), {}
  for i, run in ipairs(limit.newest) do packed[i] = pack(RUN_FORM, run[1], run[2], run[3]) end
  if gone > 0 then call('LTRIM', key, gone, -1) end
  if limit.found then call('RPOP', key) end
  write_all('RPUSH', key, packed)
  call('PEXPIRE', key, floor((limit.at - since + limit.stays) / 1000) + 1000)
end

local function save_limits(limits)
  local set = {}
  for _, limit in ipairs(limits) do
    if limit.dirty then
      limit.dirty = nil
      set[#set + 1] = limit.at
      set[#set + 1] = limit.name
      if limit.stays then save_runs(limit) end
    end
  end
  write_all('ZADD', K.slots, set)
end
