-- Order of the turns in a claim, and the start of each job.

local function best_class(slot)
  if slot[8] + slot[11] > 0 then return 3 end
  if slot[7] + slot[10] > 0 then return 2 end
  return 1
end

-- Returns the next class of a tenant with several.
local function class_of(slot, best)
  local class = best
  for c = best - 1, 1, -1 do
    if slot[5 + c] + slot[8 + c] > 0 and slot[11 + c] < slot[11 + class] then class = c end
  end
  return class
end

-- Returns the cost of the next job, where costs differ; then jobs are taken one at a time.
local function cost_of(slot, class)
  if meta[6] == 0 then return 1 end
  local back = slot[8 + class] > 0 and call('ZRANGE', back_key(lane, slot.name, class), 0, 0, 'WITHSCORES')
  local record
  if back and (slot[5 + class] == 0 or tonumber(back[2]) <= slot[2 + class]) then
    record = sub(back[1], 7)
  else
    record = call('LINDEX', list_key(lane, slot.name, class), 0)
  end
  local job = record and sound_record(record)
  return job and job.cost or 1
end

local function lane_start(cost)
  local start = since
  for i = 1, #rates do start = max(start, room_at(rates[i], cost)) end
  return start
end

local function own_start(slot, cost)
  return slot.limit and room_at(slot.limit, cost) or since
end

local function debit(slot, start, cost)
  for i = 1, #rates do spend(rates[i], start, cost) end
  if slot.limit then spend(slot.limit, start, cost) end
end

local function next_candidate()
  if wait_at > #waiting and looked > 0 and #ahead == most then
    ahead = call('ZRANGE', lane.fair, looked, looked + most - 1)
    load_slots(lane, ahead)
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

-- Turns that the tenant's own limit delays beyond the lane's next start, by that instant. Others go
-- first. If there are none, the tenant gets the lane's next start in advance, so that its worker
-- has the time until then.
local coming, coming_at = {}, 1

local function put_later(it)
  local at = #coming
  while at >= coming_at and coming[at].own > it.own do
    coming[at + 1] = coming[at]
    at = at - 1
  end
  coming[at + 1] = it
end

-- Returns a tenant to the order once it may start now.
local function rejoin()
  while coming[coming_at] and coming[coming_at].own <= lane_start(1) do
    serve_later(coming[coming_at].slot)
    coming_at = coming_at + 1
  end
end

-- Returns true if a start is too far ahead, and stores when it no longer is.
local function is_far(start)
  if start - since <= horizon then return false end
  soonest(start - since - horizon)
  return true
end

local function next_coming()
  local it = coming[coming_at]
  if not it then return end
  it.start = max(lane_start(it.cost), it.own)
  if is_far(it.start) then return end
  coming_at = coming_at + 1
  return it
end

-- A tenant that waits for its own limit is checked again after this, because the limit may have
-- changed.
local LONGEST_PARK = 5000000

-- Returns the next tenant, its class and its start.
local function next_turn()
  rejoin()
  while true do
    local slot = next_candidate()
    if not slot then return next_coming() end
    local tenant = tenants[slot.name]
    if ready(slot) == 0 then
      -- It has no more jobs; it leaves when all is written.
    elseif tenant[5] == 1 or (tenant[2] > 0 and tenant[6] >= tenant[2]) then
      slot[2], slot.dirty = 2, true
    else
      local best = best_class(slot)
      local class = best > 1 and class_of(slot, best) or best
      local cost = cost_of(slot, class)
      if cost ~= (lane.wanted or cost) then
        lane.other = cost
        serve_later(slot)
        return
      end
      local start, own = lane_start(cost), own_start(slot, cost)
      if is_far(start) then
        -- It is first in the next round, if others with a start do not use it.
        serve_later(slot)
        return
      end
      local it = { slot = slot, class = class, best = best, cost = cost, own = own, start = max(start, own) }
      if own - since > horizon then
        park(slot, min(own - horizon + origin, now + LONGEST_PARK))
        -- The bound of fruitless checks; the next claim continues behind them.
        if #parked >= 2 * (most + MAX_PASSED) then
          soonest(0)
          return next_coming()
        end
      elseif own > start and #rates > 0 then
        put_later(it)
      else
        return it
      end
    end
  end
end

-- One turn: the slot advances by the cost over its share.
local turns, passed = {}, 0
local function turn()
  local it = next_turn()
  if not it then return end
  local slot, class, tenant = it.slot, it.class, tenants[it.slot.name]
  it.claim, it.charge = tenant[1] * FACTOR[it.best], charge_of(it.cost)
  meta[1], lane.dirty = max(meta[1], slot[1]), true
  slot[1], slot.dirty = slot[1] + it.charge / it.claim, true
  slot[11 + class] = slot[11 + class] + it.charge / FACTOR[class]
  -- Counted as a returned job if there is one; taking the jobs shows which it was.
  if slot[8 + class] > 0 then
    slot.backs = slot.backs or { slot[9], slot[10], slot[11] }
    slot[8 + class] = slot[8 + class] - 1
  else
    slot[5 + class] = slot[5 + class] - 1
  end
  slot.todo[class] = slot.todo[class] + 1
  tenant[6], tenant.dirty = tenant[6] + 1, true
  debit(slot, it.start, it.cost)
  turns[#turns + 1] = it
  return it
end
