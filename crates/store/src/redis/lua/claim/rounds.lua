-- Whose turn it is in a claim, and where a job's start lies.

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
  local job = record and sound_record(record)
  return job and job.cost or 1
end

local function lane_start(cost)
  local start = since
  for i = 1, #rates do start = max(start, room_at(rates[i], cost)) end
  return start
end

local function own_start(seat, cost)
  return seat.limit and room_at(seat.limit, cost) or since
end

local function debit(seat, start, cost)
  for i = 1, #rates do spend(rates[i], start, cost) end
  if seat.limit then spend(seat.limit, start, cost) end
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

-- Turns whose tenant's own limit lets it go later than the lane would, by when that is. Others go before it,
-- and if nobody does, it has the lane's next start although that lies ahead: it is given out now, so that its
-- worker has the time until then.
local coming, coming_at = {}, 1

local function put_later(it)
  local at = #coming
  while at >= coming_at and coming[at].own > it.own do
    coming[at + 1] = coming[at]
    at = at - 1
  end
  coming[at + 1] = it
end

-- Whoever could go now stands in the order again.
local function rejoin()
  while coming[coming_at] and coming[coming_at].own <= lane_start(1) do
    serve_later(coming[coming_at].seat)
    coming_at = coming_at + 1
  end
end

-- Whether a start lies too far ahead; then it is known when it does not any more.
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

-- Who waits for a limit of its own is looked at again after this, because the limit may be another by then.
local LONGEST_PARK = 5000000

-- Whose turn it is: what goes, and where its start lies.
local function next_turn()
  rejoin()
  while true do
    local seat = next_candidate()
    if not seat then return next_coming() end
    local tenant = tenants[seat.name]
    if ready(seat) == 0 then
      -- It has no more; it leaves when all is written.
    elseif tenant[5] == 1 or (tenant[2] > 0 and tenant[6] >= tenant[2]) then
      seat[2], seat.dirty = 2, true
    else
      local best = best_class(seat)
      local class = best > 1 and class_of(seat, best) or best
      local cost = cost_of(seat, class)
      local start, own = lane_start(cost), own_start(seat, cost)
      if is_far(start) then
        -- It is first in the next round, if others that had a slot do not go.
        serve_later(seat)
        return
      end
      local it = { seat = seat, class = class, best = best, cost = cost, own = own, start = max(start, own) }
      if own - since > horizon then
        park(seat, min(own - horizon + origin, now + LONGEST_PARK))
        -- As many as are looked at in vain otherwise; the next claim goes on behind them.
        if #parked >= 2 * (most + MOST_PASSED) then
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

-- One turn: the seat moves on by the cost over its claim.
local turns, passed = {}, 0
local function turn()
  local it = next_turn()
  if not it then return end
  local seat, class, tenant = it.seat, it.class, tenants[it.seat.name]
  it.claim, it.charge = tenant[1] * FACTOR[it.best], charge_of(it.cost)
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
