-- Holders of an account, and the limits that they put in force.
--
-- A holder is a field of the account's hash, named by its eight bytes; no other field has a name of that
-- length. Those with an unmet want are repeated in one field, because each grant compares them.

local NAME_BYTES, HOLDER_NUMBERS, WAITING_NUMBERS = 8, 14, 6
-- Limits in force and kept ones; holders that wait; the holder of this call, and the text of its rules.
local limits, waiting, holder

local function is_active(one) return one.held_calls > 0 or one.held_cost > 0 or one.want_calls > 0 end

local function gone_at(one)
  local holds = one.held_calls > 0 or one.held_cost > 0
  return holds and one.deadline + one.timeout or one.deadline
end

local function read_holder(text)
  local one, n = {}, read_numbers(text, HOLDER_NUMBERS)
  one.number, one.joined, one.granted_calls, one.granted_cost, one.wait, one.held_calls, one.held_cost = unpack(n, 1, 7)
  one.deadline, one.timeout, one.want_calls, one.want_cost, one.want_first, one.due, one.tag = unpack(n, 8, 14)
  one.rules_text = sub(text, HOLDER_NUMBERS * SIZE + 1)
  return one
end

local function write_holder(one)
  return pack_numbers({
    one.number, one.joined, one.granted_calls, one.granted_cost, one.wait, one.held_calls, one.held_cost,
    one.deadline, one.timeout, one.want_calls, one.want_cost, one.want_first, one.due, one.tag,
  }) .. one.rules_text
end

-- Reads those that wait, by name.
local function read_waiting(text)
  local all, size = {}, NAME_BYTES + WAITING_NUMBERS * SIZE
  for from = 1, #text, size do
    local n = read_numbers(text, WAITING_NUMBERS, from + NAME_BYTES)
    all[#all + 1] = {
      name = sub(text, from, from + NAME_BYTES - 1),
      tag = n[1], want_calls = n[2], want_cost = n[3], want_first = n[4], deadline = n[5], due = n[6],
    }
  end
  return all
end

local function write_waiting()
  local parts = {}
  for _, one in ipairs(waiting) do
    parts[#parts + 1] = one.name
    parts[#parts + 1] = pack_numbers({ one.tag, one.want_calls, one.want_cost, one.want_first, one.deadline, one.due })
  end
  return table.concat(parts)
end

local function remove_waiting(name)
  for i, one in ipairs(waiting) do
    if one.name == name then return table.remove(waiting, i) end
  end
end

-- Changes how many holders have these rules, and returns the texts of all rules that holders have.
local function change_rules(added, removed)
  local text, changes, texts, parts = redis.call('HGET', account_key, 'rules') or '', {}, {}, {}
  for _, one in ipairs(removed) do changes[one] = (changes[one] or 0) - 1 end
  if added then changes[added] = (changes[added] or 0) + 1 end
  local function keep(rules, many)
    if many <= 0 then return end
    texts[#texts + 1] = rules
    parts[#parts + 1] = pack('>dd', many, #rules) .. rules
  end
  local from = 1
  while from <= #text do
    local many, bytes = unpacked('>dd', text, from)
    local rules = sub(text, from + 2 * SIZE, from + 2 * SIZE + bytes - 1)
    keep(rules, many + (changes[rules] or 0))
    changes[rules] = nil
    from = from + 2 * SIZE + bytes
  end
  for rules, many in pairs(changes) do keep(rules, many) end
  redis.call('HSET', account_key, 'rules', table.concat(parts))
  return texts
end

-- Returns the rules of all holders, each at its lowest.
local function lowest_rules(texts)
  local lowest = {}
  for _, text in ipairs(texts) do
    for _, rule in ipairs(read_rules(text)) do
      local known
      for _, other in ipairs(lowest) do
        if is_same_key(other, rule) then known = other end
      end
      if known then
        known.quantity, known.capacity = min(known.quantity, rule.quantity), min(known.capacity, rule.capacity)
      else
        lowest[#lowest + 1] = rule
      end
    end
  end
  return lowest
end

-- Returns the shortest ring that knows at least the window of this rule.
local function longer_ring(rule)
  local best
  for _, limit in ipairs(limits) do
    local knows = limit.kind == SLIDING and limit.measure == rule.measure and limit.window >= rule.window
    if knows and (not best or limit.window < best.window) then best = limit end
  end
  return best
end

local function add_limit(rule)
  local limit = new_limit(rule)
  advance_limit(limit)
  local longer = longer_ring(rule)
  if longer then
    inherit(limit, longer)
  elseif head[UNKNOWN_BEFORE] > 0 then
    count_units(limit, head[UNKNOWN_BEFORE], limit.capacity)
  end
  limits[#limits + 1] = limit
end

-- Drops limits of former holders. Held units were granted under all limits of that time and may still arrive,
-- so none is dropped meanwhile.
local function drop_unused_limits()
  local kept, holds = {}, head[HELD_CALLS] > 0 or head[HELD_COST] > 0
  for _, limit in ipairs(limits) do
    if limit.in_force or holds or arrived_units(limit) > 0 then
      kept[#kept + 1] = limit
    elseif limit.ring then
      redis.call('DEL', ring_key(limit))
    end
  end
  limits = kept
end

-- Puts the limits of all holders in force.
local function refresh_limits(texts)
  local lowest = lowest_rules(texts)
  for _, limit in ipairs(limits) do
    limit.in_force = false
    for _, rule in ipairs(lowest) do
      if is_same_key(limit, rule) then
        limit.in_force, rule.is_known = true, true
        if limit.quantity ~= rule.quantity or limit.capacity ~= rule.capacity then set_rule(limit, rule) end
      end
    end
  end
  for _, rule in ipairs(lowest) do
    if not rule.is_known then add_limit(rule) end
  end
  drop_unused_limits()
end

-- Removes holders that can no longer send: their units arrive at the last possible moment. Returns true if
-- there were any.
local function remove_gone()
  if latest < head[NONE_GONE] then return false end
  local fields, gone, removed, next_gone = redis.call('HGETALL', account_key), {}, {}, huge
  for i = 1, #fields, 2 do
    local name = fields[i]
    if #name == NAME_BYTES then
      local one = read_holder(fields[i + 1])
      if latest >= gone_at(one) then
        one.name, one.last_arrival = name, one.deadline + one.timeout
        gone[#gone + 1] = one
      else
        next_gone = min(next_gone, gone_at(one))
      end
    end
  end
  head[NONE_GONE] = next_gone
  table.sort(gone, function(a, b)
    if a.last_arrival ~= b.last_arrival then return a.last_arrival < b.last_arrival end
    return a.name < b.name
  end)
  for _, one in ipairs(gone) do
    for _, limit in ipairs(limits) do
      count_units(limit, one.last_arrival, units_of(limit, one.held_calls, one.held_cost))
    end
    head[HELD_CALLS], head[HELD_COST] = head[HELD_CALLS] - one.held_calls, head[HELD_COST] - one.held_cost
    if is_active(one) then head[ACTIVE] = head[ACTIVE] - 1 end
    removed[#removed + 1] = one.rules_text
    remove_waiting(one.name)
    redis.call('HDEL', account_key, one.name)
  end
  if #removed > 0 then refresh_limits(change_rules(nil, removed)) end
  return #removed > 0
end
