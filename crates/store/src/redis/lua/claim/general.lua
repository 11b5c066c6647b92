-- Hands out jobs of a lane in fair order, for all kinds of jobs and limits.
--
-- The order is computed from counts alone, assuming a cost of 1; then each tenant's jobs are taken
-- with one command. Where costs differ, jobs are taken one by one instead.

-- The first candidates and the lane itself were read before.
local meta = lane.meta
local MAX_PASSED = 1000

if meta[3] > now then return claim_answer(meta[3] - now, 0) end

-- Returns tenants after their cooldown and jobs that are due.
local has_returned = false
local function return_due()
  local more = false
  has_returned = true
  local due = call('ZRANGEBYSCORE', lane.parked, '-inf', now, 'LIMIT', 0, 500)
  if #due > 0 then
    call('ZREM', lane.parked, unpack(due))
    load_slots(lane, due)
    for _, name in ipairs(due) do
      local slot = lane.slots[name]
      if slot.fresh then
        lane.slots[name] = nil
      elseif slot[2] == 1 then
        slot[2] = 2
        arrange(lane, slot)
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
  -- Written at once: a later failure must not undo it.
  save_actions()
  -- This claim serves the tenants whose time has come: no other process has to look.
  must_notify = must_notify and #due > 0
  save_all()
  ahead = call('ZRANGE', lane.fair, 0, most - 1)
  load_slots(lane, ahead)
end
if meta[4] > 0 and meta[4] <= now then return_due() end
load_tenants(ahead)

-- The count of all tenants' starts, and what this claim adds to it.
local global, started = planned and tonumber(ARGV[8]) or 0, 0
local all = global > 0 and starts.open(starts.OF_ALL, global, 1000000)

-- Large doubles lose precision, so places are rebased to the clock before: once in four thousand
-- million turns of the smallest share, and then for all tenants at once.
if meta[1] > FURTHEST or (#ahead > 0 and lane.slots[ahead[1]][1] > FURTHEST) then
  local by = max(meta[1], lane.slots[ahead[1]] and lane.slots[ahead[1]][1] or 0)
  local cursor = '0'
  repeat
    local found = call('HSCAN', lane.key, cursor, 'COUNT', CHUNK)
    cursor = found[1]
    for i = 1, #found[2], 2 do
      local name = found[2][i]
      if name ~= '' then
        local slot = lane.slots[name] or take_slot(lane, name, found[2][i + 1])
        if not slot.shifted then
          slot[1], slot.dirty, slot.shifted = max(0, slot[1] - by), true, true
        end
      end
    end
  until cursor == '0'
  call('DEL', lane.owed)
  meta[1], meta[7], lane.dirty = 0, 0, true
  save_all()
  load_slots(lane, ahead)
end

-- Unserved tenants by place, and served ones by their new place.
local waiting, served, wait_at, serve_at, looked = {}, {}, 1, 1, 0

local function look(names)
  for _, name in ipairs(names) do
    local slot = lane.slots[name]
    if not slot.fresh and slot[2] == 0 then
      waiting[#waiting + 1] = slot
      slot.todo, slot.got = { 0, 0, 0 }, { {}, {}, {} }
    end
  end
  looked = looked + #names
end
look(ahead)

local function serve_later(slot)
  local at = #served
  while at >= serve_at and served[at][1] > slot[1] do
    served[at + 1] = served[at]
    at = at - 1
  end
  served[at + 1] = slot
end

local next_at
local function soonest(at) next_at = min(next_at or at, at) end
local parked = {}

local function park(slot, at)
  slot[2], slot.dirty = 1, true
  parked[#parked + 1] = at
  parked[#parked + 1] = slot.name
end
