-- Limits that machines share: the instant of the next start of each, since the queue's creation.
--
-- Starts are spaced: a window's units are spread over the window, or over a second of it, since an
-- hourly quantity is meant to be used. A job of cost c keeps c steps free after it.
--
-- Usage is stored in runs of close starts: the begin of a run, its last start, and the total units
-- started by then. A unit over the limit starts when enough earlier units have left the window. A
-- run leaves it when its last start does, late by a thousandth of the window, so a thousand runs
-- and the one before them describe a limit of any size. If every start used one unit the spacing
-- alone would do; but other lanes and schedulers share the limit.
--
-- Unused quota expires. A job that costs more than the limit uses all of it: its worker knows that
-- it can never start.

local guard, horizon, since
-- Number of the claim's round: its reservations may be taken back at its end.
local round_now = 0
local SPREAD, RUNS, AT_ONCE, RUN_FORM = 1000000, 1000, 64, '>ddd'
-- This prefix and the limit's name hold the instant until which the newest run counts, give or take
-- a microsecond.
local REMEMBERED, ROUNDING = 'U ', 1
-- A replaced server knows all but the last moments: that is no reason to wait for an hour.
local MAX_DOUBT = 60000000

-- `bare` keeps no spacing.
local function limit_of(name, units, window, counts, bare)
  local limit = { name = name, units = units, window = window, calls = counts == 'calls', at = 0 }
  limit.stays, limit.key = window + guard, P .. 'u:' .. name
  limit.step = bare and 0 or (window <= SPREAD and limit.stays or SPREAD) / units
  return limit
end

-- Reads the limits, which begin at this argument.
local function read_plan(first, bare)
  guard, horizon, since = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), now - origin
  local limits = {}
  for at = first + 2, #ARGV, 4 do
    local counts = ARGV[at + 3] == '0' and 'calls' or 'cost'
    limits[#limits + 1] = limit_of(ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), counts, bare)
  end
  return limits
end

-- Returns the units that a job of this cost uses of a limit.
local function units_of(limit, cost)
  return limit.calls and 1 or min(cost, limit.units)
end

-- Returns the instant until which a limit stays closed, because its earlier usage is unknown.
local function closed_until(limit)
  local until_then = 0
  if doubt > 0 then until_then = doubt + limit.window + guard - origin end
  if moved > 0 then until_then = max(until_then, moved + min(limit.window, MAX_DOUBT) + guard - origin) end
  return until_then
end

-- The newest run is stored apart from the older ones, because it may grow. Runs that left the
-- window before are useless, except the one from which the units of the next are counted.
local function open_runs(limit)
  local many = call('LLEN', limit.key)
  limit.older, limit.runs, limit.first = max(0, many - 1), {}, 1
  limit.newest, limit.found, limit.used = {}, many > 0, 0
  if limit.found then
    local begun, ended, used = unpacked(RUN_FORM, call('LINDEX', limit.key, -1))
    limit.newest[1], limit.used = { begun, ended, used }, used
    if ended + limit.stays <= since then limit.first = many end
  end
end

-- Finds the next start of a limit and its stored usage. If nothing is stored, or only for a shorter
-- window, all earlier starts must leave the window first: their number is unknown.
local function open_limit(limit, at, remembered)
  open_runs(limit)
  local last = limit.newest[1] and limit.newest[1][2]
  if not last then
    if at > 0 then at = at + limit.stays end
  elseif remembered > 0 and remembered - last + ROUNDING < limit.stays then
    at = max(at, last + limit.stays)
  end
  limit.at = max(at, closed_until(limit))
end

local function read_limits(limits)
  each_chunk(limits, CHUNK / 2, function(first, last)
    local names = {}
    for i = first, last do
      names[#names + 1] = limits[i].name
      names[#names + 1] = REMEMBERED .. limits[i].name
    end
    local found, place = call('ZMSCORE', K.slots, unpack(names)), 1
    for i = first, last do
      open_limit(limits[i], tonumber(found[place]) or 0, tonumber(found[place + 1]) or 0)
      place = place + 2
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

-- Saves the state before the current round. Starts are computed again for the jobs that start, so
-- that the others leave no gap.
local function remember(limit)
  if limit.round == round_now then return end
  local many = #limit.newest
  limit.round = round_now
  limit.was = { limit.at, limit.used, limit.first, many, limit.newest[many], limit.dirty }
end

-- Finds the run that must leave the window before these units may start.
local function run_before(limit, units)
  local past, place = limit.used + units - limit.units, limit.first
  if past <= 0 then return end
  while run_at(limit, place)[3] < past do place = place + 1 end
  return place
end

-- Returns the instant at which a job of this cost may start.
local function room_at(limit, cost)
  local units = units_of(limit, cost)
  if units == 0 then return 0 end
  local place = run_before(limit, units)
  return place and max(limit.at, run_at(limit, place)[2] + limit.stays) or limit.at
end

local function spend(limit, start, cost)
  local units = units_of(limit, cost)
  if units == 0 then return end
  remember(limit)
  limit.at, limit.dirty = start + limit.step * units, true
  limit.first = run_before(limit, units) or limit.first
  limit.used = limit.used + units
  local newest = limit.newest
  local run = newest[#newest]
  if run and start - run[1] < limit.stays / RUNS then
    newest[#newest] = { run[1], max(run[2], start), limit.used }
  else
    newest[#newest + 1] = { start, start, limit.used }
  end
end

local function take_back(limit)
  if limit.round ~= round_now then return end
  local was = limit.was
  limit.at, limit.used, limit.first, limit.dirty = was[1], was[2], was[3], was[6]
  for i = #limit.newest, was[4] + 1, -1 do limit.newest[i] = nil end
  limit.newest[was[4]] = was[5]
end

-- Of the runs that left the window the last one stays: the next is counted from it.
local function skip_gone(limit)
  local older, gone = limit.older, since - limit.stays
  while limit.first < older and run_at(limit, limit.first + 1)[2] <= gone do limit.first = limit.first + 1 end
end

local function save_runs(limit)
  skip_gone(limit)
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
      save_runs(limit)
      set[#set + 1] = limit.at
      set[#set + 1] = limit.name
      set[#set + 1] = limit.newest[#limit.newest][2] + limit.stays
      set[#set + 1] = REMEMBERED .. limit.name
    end
  end
  write_all('ZADD', K.slots, set)
end
