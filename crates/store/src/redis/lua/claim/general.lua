-- Gives out jobs of a lane in fair order, whatever they are and however they are limited.
--
-- Who goes is reckoned from counts alone, on the understanding that a job costs 1; then each tenant's jobs
-- are taken with one command. Where costs differ, one job is taken after the other instead.

-- Every candidate of the first look, and the lane itself, were read before.
local meta = lane.meta
local MOST_PASSED = 1000

if meta[3] > now then return claim_answer(meta[3] - now, 0) end

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
    local entry = sound_entry(packed)
    if entry then
      undelay(packed, entry)
      give_back(lane, entry.tenant, entry)
    else
      call('ZREM', lane.delayed, packed)
      set_aside(packed)
    end
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

local rates = read_plan(8)
read_limits(rates)

-- Doubles lose their fine steps where they are large, so places are counted from the clock again before
-- that: once in four thousand million services of the smallest claim, and then for all tenants at once.
if meta[1] > FURTHEST or (#ahead > 0 and lane.seats[ahead[1]][1] > FURTHEST) then
  local by = max(meta[1], lane.seats[ahead[1]] and lane.seats[ahead[1]][1] or 0)
  local cursor = '0'
  repeat
    local found = call('HSCAN', lane.key, cursor, 'COUNT', CHUNK)
    cursor = found[1]
    for i = 1, #found[2], 2 do
      local name = found[2][i]
      if name ~= '' then
        local seat = lane.seats[name] or take_seat(lane, name, found[2][i + 1])
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

local function limit_seat(seat)
  local tenant = tenants[seat.name]
  if not planned or tenant[3] == 0 or seat.limit then return end
  seat.limit = limit_of('T ' .. seat.name, tenant[3], tenant[4])
  return seat.limit
end

local function look(names)
  local limits = {}
  for _, name in ipairs(names) do
    local seat = lane.seats[name]
    if not seat.fresh and seat[2] == 0 then
      waiting[#waiting + 1] = seat
      seat.todo, seat.got = { 0, 0, 0 }, { {}, {}, {} }
      limits[#limits + 1] = limit_seat(seat)
    end
  end
  read_limits(limits)
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
