-- Order of the turns in a claim.

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

-- A tenant that waits for its own limit is checked again after this, because the limit may have
-- changed.
local LONGEST_PARK = 5000000

-- Returns true if all tenants together may start a job of this cost now.
local function has_global_room(cost)
  if not all then return true end
  local at = starts.free_at(all, cost, started)
  if at > now then soonest(at - now) end
  return at <= now
end

-- Returns the next tenant and its class.
local function next_turn()
  while true do
    local slot = next_candidate()
    if not slot then return end
    local tenant = tenants[slot.name]
    if ready(slot) == 0 then
      -- It has no more jobs; it leaves when all is written.
    elseif tenant[5] == 1 or (tenant[2] > 0 and tenant[6] >= tenant[2]) then
      slot[2], slot.dirty = 2, true
    else
      local best = best_class(slot)
      local class = best > 1 and class_of(slot, best) or best
      local cost = cost_of(slot, class)
      if cost ~= (lane.wanted or cost) then lane.other = cost end
      if lane.other or not has_global_room(cost) then
        -- It is first in the next round, if others do not use the quota.
        serve_later(slot)
        return
      end
      local count = planned and starts.of_tenant(slot.name, tenant)
      local at = count and starts.free_at(count, cost) or 0
      if at <= now then return { slot = slot, class = class, best = best, cost = cost, count = count } end
      park(slot, min(at, now + LONGEST_PARK))
      -- The bound of fruitless checks; the next claim continues behind them.
      if #parked >= 2 * (most + MAX_PASSED) then
        soonest(0)
        return
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
  started = started + min(it.cost, global)
  if it.count then
    starts.hold(it.count, it.cost)
    starts.space(it.count, it.cost)
  end
  turns[#turns + 1] = it
  return it
end
