-- Fair order of holders with unmet wants, in time of the limit, and grants within it.

local QUANTA_AHEAD, LEAST_QUANTUM, LATE = 2, 5000000, 10000000
local LEAST_WAIT, POLLS, LONGEST_POLL = 1000000, 50, 20000000

-- Folds the limits in force into units of a lease: the least number of calls and of cost.
local function least_of_all(units)
  local calls, cost = huge, huge
  for _, limit in ipairs(limits) do
    if limit.in_force then
      local many = units(limit)
      if COUNTS_COST[limit.measure] then cost = min(cost, many) else calls = min(calls, many) end
    end
  end
  return calls, cost
end

local function time_of_lease(calls, cost)
  local time = 0
  for _, limit in ipairs(limits) do
    if limit.in_force then time = max(time, time_of_units(limit, units_of(limit, calls, cost))) end
  end
  return time
end

-- Returns the step of the order: at least one unit of each limit.
local function quantum_of_order()
  local quantum = 0
  for _, limit in ipairs(limits) do
    if limit.in_force then quantum = max(quantum, time_of_units(limit, 1)) end
  end
  return max(quantum, LEAST_QUANTUM)
end

-- Returns what is reserved for holders with an earlier place, the most time of the limit that a grant may
-- take, and the smallest tag.
local function fair_bounds(name, quantum)
  local ahead_calls, ahead_cost, smallest, competes = 0, 0, holder.tag, false
  local fair_calls, fair_cost = least_of_all(function(limit) return units_in(limit, quantum) end)
  for _, other in ipairs(waiting) do
    if other.name ~= name and latest < other.deadline and latest <= other.due + LATE then
      competes, smallest = true, min(smallest, other.tag)
      if other.tag < holder.tag or (other.tag == holder.tag and other.name < name) then
        ahead_calls = ahead_calls + max(min(other.want_calls, fair_calls), 1)
        ahead_cost = ahead_cost + max(min(other.want_cost, fair_cost), other.want_first)
      end
    end
  end
  local allowance = competes and max(0, smallest + quantum * QUANTA_AHEAD - holder.tag) or nil
  return ahead_calls, ahead_cost, allowance, smallest
end

local function proportion(amount, part, whole)
  if part >= whole then return amount end
  return ceil(amount * part / whole)
end

-- Returns the largest part of the want within these units, in its proportion of calls and cost.
local function part_within(calls, cost)
  if holder.want_calls == 0 or calls <= 0 or cost < holder.want_first then return 0, 0 end
  local by_cost = max(proportion(holder.want_calls, cost, holder.want_cost), 1)
  local granted = min(calls, holder.want_calls, by_cost)
  local by_calls = max(proportion(holder.want_cost, granted, holder.want_calls), holder.want_first)
  return granted, min(cost, holder.want_cost, by_calls)
end

-- Returns the time until the next call fits beside the arrivals and these units.
local function wait_for(calls, cost)
  local at = latest + LEAST_WAIT
  for _, limit in ipairs(limits) do
    if limit.in_force and units_of(limit, 1, holder.want_first) > limit.capacity then return huge end
  end
  for _, limit in ipairs(limits) do
    if limit.in_force then
      local free_at = time_for(limit, units_of(limit, calls + 1, cost + holder.want_first))
      -- Held units may be returned at any moment, so nothing better is known.
      local poll = max(LEAST_WAIT, min(floor(limit.window / POLLS), LONGEST_POLL))
      at = max(at, free_at or latest + poll)
    end
  end
  return at - latest
end

-- Grants what fits beside the arrivals and the units of the others.
local function grant(name, held_calls, held_cost)
  holder.granted_calls, holder.granted_cost, holder.wait, holder.due = 0, 0, -1, 0
  if holder.want_calls == 0 then return end
  local quantum = quantum_of_order()
  holder.tag = max(holder.tag, head[FAIR_CLOCK] - quantum * QUANTA_AHEAD, 0)
  local ahead_calls, ahead_cost, allowance, smallest = fair_bounds(name, quantum)
  local most_calls, most_cost = huge, huge
  if allowance == 0 then
    most_calls, most_cost = 0, 0
  elseif allowance then
    most_calls, most_cost = least_of_all(function(limit) return units_in(limit, allowance) end)
    most_calls, most_cost = max(most_calls, 1), max(most_cost, holder.want_first)
  end
  held_calls, held_cost = held_calls + holder.held_calls, held_cost + holder.held_cost
  local room_calls, room_cost = least_of_all(function(limit)
    return max(0, limit.capacity - arrived_units(limit) - units_of(limit, held_calls, held_cost))
  end)
  if latest < head[CLOSED_UNTIL] then room_calls, room_cost = 0, 0 end
  local calls, cost = part_within(
    min(max(0, room_calls - ahead_calls), most_calls), min(max(0, room_cost - ahead_cost), most_cost)
  )
  if calls > 0 then
    head[FAIR_CLOCK] = max(head[FAIR_CLOCK], smallest)
    holder.tag = holder.tag + time_of_lease(calls, cost)
    holder.held_calls, holder.held_cost = holder.held_calls + calls, holder.held_cost + cost
  end
  holder.granted_calls, holder.granted_cost = calls, cost
  holder.want_calls, holder.want_cost = max(0, holder.want_calls - calls), max(0, holder.want_cost - cost)
  holder.want_first = min(holder.want_first, holder.want_cost)
  if holder.want_calls > 0 then
    local wait = wait_for(held_calls + calls + ahead_calls, held_cost + cost + ahead_cost)
    holder.wait = max(wait, head[CLOSED_UNTIL] - latest)
    holder.due = latest + holder.wait
  end
end
