-- One limit of an account, and the arrivals that count against it.
--
-- A bucket is full again at `base + backlog / quantity`: a backlog of units times the window stays whole.

local SLIDING, ALIGNED, BUCKET = 0, 1, 2
-- Places of the measures that count the cost of a call: cost, tokens, input tokens.
local COUNTS_COST = { [0] = true, [2] = true, [3] = true }
local RULE_NUMBERS, LIMIT_NUMBERS = 5, 10

local function units_of(rule, calls, cost) return COUNTS_COST[rule.measure] and cost or calls end

local function time_of_units(rule, units) return ceil(units * rule.window / rule.quantity) end

local function units_in(rule, nanos) return floor(nanos * rule.quantity / rule.window) end

local function is_same_key(a, b) return a.kind == b.kind and a.measure == b.measure and a.window == b.window end

-- Reads rules: kind, measure, window, quantity and capacity of each.
local function read_rules(text)
  local rules, numbers = {}, read_sent(text, #text / SIZE)
  for i = 1, #numbers, RULE_NUMBERS do
    rules[#rules + 1] = {
      kind = numbers[i], measure = numbers[i + 1], window = numbers[i + 2], quantity = numbers[i + 3], capacity = numbers[i + 4],
    }
  end
  return rules
end

-- Reads limits: a rule, 1 if it is in force, then four numbers of its history.
local function read_limits(text)
  local limits, numbers = {}, read_numbers(text, #text / SIZE)
  for i = 1, #numbers, LIMIT_NUMBERS do
    local limit = {
      kind = numbers[i], measure = numbers[i + 1], window = numbers[i + 2], quantity = numbers[i + 3], capacity = numbers[i + 4],
      in_force = numbers[i + 5] == 1,
    }
    if limit.kind == SLIDING then
      limit.ring, limit.first, limit.newest, limit.total = unpack(numbers, i + 6, i + 9)
      limit.width = ceil(limit.window / SLICES)
    elseif limit.kind == ALIGNED then
      limit.edge, limit.spent = numbers[i + 6], numbers[i + 7]
    else
      limit.base, limit.backlog = numbers[i + 6], numbers[i + 7]
    end
    limits[#limits + 1] = limit
  end
  return limits
end

local function write_limits(limits)
  local numbers = {}
  local function add(...)
    for _, number in ipairs({ ... }) do numbers[#numbers + 1] = number end
  end
  for _, limit in ipairs(limits) do
    add(limit.kind, limit.measure, limit.window, limit.quantity, limit.capacity, limit.in_force and 1 or 0)
    if limit.kind == SLIDING then
      add(limit.ring, limit.first, limit.newest, limit.total)
    elseif limit.kind == ALIGNED then
      add(limit.edge, limit.spent, 0, 0)
    else
      add(limit.base, limit.backlog, 0, 0)
    end
  end
  return #numbers == 0 and '' or pack_numbers(numbers)
end

-- Windows of UTC are counted in microseconds, in which the server's clock is exact.
local function next_edge(limit)
  local into = server_now % (limit.window / 1000)
  return latest + limit.window - into * 1000
end

local function advance_limit(limit)
  if limit.kind == SLIDING then
    ring_advance(limit)
  elseif limit.kind == ALIGNED and latest >= limit.edge then
    limit.edge, limit.spent = next_edge(limit), 0
  end
end

local function new_limit(rule)
  local limit = { in_force = true }
  for name, value in pairs(rule) do limit[name] = value end
  if rule.kind == SLIDING then
    head[RINGS] = head[RINGS] + 1
    limit.ring, limit.first, limit.newest, limit.total = head[RINGS], 0, -1, 0
    limit.width = ceil(limit.window / SLICES)
  elseif rule.kind == ALIGNED then
    limit.edge, limit.spent = 0, 0
  else
    limit.base, limit.backlog = 0, 0
  end
  return limit
end

local function backlog_at(limit, at) return max(0, limit.backlog - (at - limit.base) * limit.quantity) end

-- Applies other quantities. Missing tokens of a bucket stay missing.
local function set_rule(limit, rule)
  if limit.kind == BUCKET then limit.base, limit.backlog = latest, backlog_at(limit, latest) end
  limit.quantity, limit.capacity = rule.quantity, rule.capacity
end

-- Counts units that arrived at an instant that is not after the account's time.
local function count_units(limit, at, units)
  if units == 0 then return end
  if limit.kind == SLIDING then
    ring_count(limit, at, units)
  elseif limit.kind == ALIGNED then
    if at >= limit.edge - limit.window then limit.spent = limit.spent + units end
  else
    if at > limit.base then limit.base, limit.backlog = at, backlog_at(limit, at) end
    limit.backlog = limit.backlog + units * limit.window
  end
end

-- Returns the units that arrived and still count.
local function arrived_units(limit)
  if limit.kind == SLIDING then return limit.total end
  if limit.kind == ALIGNED then return limit.spent end
  return ceil(backlog_at(limit, latest) / limit.window)
end

-- Starts with what a longer sliding window knows about the same units.
local function inherit(limit, longer)
  if limit.kind == BUCKET then return end
  each_bucket(longer, function(bucket_end, units) count_units(limit, min(bucket_end, latest), units) end)
end

-- Returns the time at which these units fit beside the arrivals, or nothing if they never do.
local function time_for(limit, units)
  local over = arrived_units(limit) + units - limit.capacity
  if over <= 0 then return latest end
  if limit.kind == SLIDING then return ring_time_of(limit, over) end
  if units > limit.capacity then return end
  if limit.kind == ALIGNED then return limit.edge end
  local available, backlog = (limit.capacity - units) * limit.window, backlog_at(limit, latest)
  return backlog <= available and latest or latest + ceil((backlog - available) / limit.quantity)
end
