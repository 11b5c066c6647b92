-- Renews a quota lease: counts what a holder reports, and grants what it wants as far as every limit has room.
--
-- ARGV: prefix, identity of the ledger, account, holder, numbers, rules, arrivals, words of facts. The numbers
-- are: number and join number of the renewal, returned calls and cost, wanted calls and cost, cost of the
-- next call, term, timeout, known generation of facts, 1 if facts are shared, the generation that they
-- replace, and their lifetime.
--
-- The reply is a status, the server's time, then the answer: join number, granted calls and cost, wait, other
-- active holders, one more than the generation of new facts, their age, and for each limit in force kind, measure, window, quantity,
-- capacity, arrived and held units; and the words of facts that the holder does not know.

local GRANTED, UNKNOWN_HOLDER, OLD_NUMBER = 0, 1, 2
local FACT_BYTES, ENDLESS = 2048, 4611686018427387904

-- Returns the age of an arrival for a limit: for a limit of other holders alone it is the youngest of all.
local function age_of(limit, rules, ages)
  local own, youngest = huge, huge
  for i, rule in ipairs(rules) do
    if is_same_key(rule, limit) then own = min(own, ages[i]) end
    youngest = min(youngest, ages[i])
  end
  if own < huge then return own end
  return youngest < huge and youngest or 0
end

local function count_arrivals(rules)
  local text, size = ARGV[7], 2 + #rules
  for from = 1, #text, size * SIZE do
    local n = read_sent(text, size, from)
    local calls, cost, ages = n[1], n[2], { unpack(n, 3) }
    for _, limit in ipairs(limits) do
      count_units(limit, max(0, latest - age_of(limit, rules, ages)), units_of(limit, calls, cost))
    end
    holder.held_calls, holder.held_cost = max(0, holder.held_calls - calls), max(0, holder.held_cost - cost)
  end
end

local function update_facts(n)
  if n[11] ~= 1 or n[12] ~= head[GENERATION] or #ARGV[8] > FACT_BYTES then return end
  head[GENERATION], head[WRITTEN], head[FACTS_END] = head[GENERATION] + 1, latest, latest + n[13]
  redis.call('HSET', account_key, 'facts', ARGV[8])
end

local function begin_renewal(n)
  holder.number = n[1]
  -- While this renewal is unanswered the holder keeps to its earlier term.
  holder.deadline = max(holder.deadline, latest + n[8])
  -- A call sent under an earlier, longer timeout can still be in flight.
  local holds = holder.held_calls > 0 or holder.held_cost > 0
  holder.timeout = holds and max(n[9], holder.timeout) or n[9]
  holder.want_calls, holder.want_cost, holder.want_first = n[5], n[6], n[7]
  if n[5] == 0 then
    holder.want_cost, holder.want_first = 0, 0
  else
    holder.want_cost = max(n[6], n[7])
  end
end

local function apply(n, name)
  local was_active, old_rules = holder and is_active(holder), holder and holder.rules_text
  if not holder then
    head[JOINS] = head[JOINS] + 1
    holder = {
      joined = head[JOINS], tag = head[FAIR_CLOCK], deadline = 0, timeout = 0, held_calls = 0, held_cost = 0,
    }
  end
  local before_calls, before_cost = holder.held_calls, holder.held_cost
  holder.rules_text = ARGV[6]
  begin_renewal(n)
  notice_replacement()
  update_facts(n)
  if old_rules == ARGV[6] then
    drop_unused_limits()
  else
    refresh_limits(change_rules(ARGV[6], { old_rules }))
  end
  count_arrivals(read_rules(ARGV[6]))
  local back_calls, back_cost = min(n[3], holder.held_calls), min(n[4], holder.held_cost)
  holder.held_calls, holder.held_cost = holder.held_calls - back_calls, holder.held_cost - back_cost
  holder.tag = max(0, holder.tag - time_of_lease(back_calls, back_cost))
  if holder.held_calls == 0 and holder.held_cost == 0 then holder.deadline = latest + n[8] end
  grant(name, head[HELD_CALLS] - before_calls, head[HELD_COST] - before_cost)
  head[HELD_CALLS] = head[HELD_CALLS] - before_calls + holder.held_calls
  head[HELD_COST] = head[HELD_COST] - before_cost + holder.held_cost
  head[ACTIVE] = head[ACTIVE] + (is_active(holder) and 1 or 0) - (was_active and 1 or 0)
end

-- Zero stands for no wait, and the largest number for one without end.
local function sent_wait(wait)
  if wait < 0 then return 0 end
  return min(wait + 1, ENDLESS)
end

-- Adds the limits in force with their usage.
local function add_usage(numbers)
  for _, limit in ipairs(limits) do
    if limit.in_force then
      local held = units_of(limit, head[HELD_CALLS], head[HELD_COST])
      for _, number in ipairs({
        limit.kind, limit.measure, limit.window, limit.quantity, limit.capacity, arrived_units(limit), held,
      }) do
        numbers[#numbers + 1] = number
      end
    end
  end
end

local function answer(n)
  local generation, age, words = 0, 0, ''
  if n[10] ~= head[GENERATION] then
    generation, age = head[GENERATION] + 1, latest - head[WRITTEN]
    if latest < head[FACTS_END] then words = redis.call('HGET', account_key, 'facts') or '' end
  end
  local numbers = {
    GRANTED, server_now, holder.joined, holder.granted_calls, holder.granted_cost, sent_wait(holder.wait),
    head[ACTIVE] - (is_active(holder) and 1 or 0), generation, age,
  }
  add_usage(numbers)
  return { pack_sent(numbers), words }
end

local function renew()
  local account, name, n = ARGV[3], ARGV[4], read_sent(ARGV[5], 13)
  load_account(account, name)
  -- A missing number means that the server is an older copy: what was reported and granted is unknown.
  local is_next = holder and n[2] == holder.joined and n[1] == holder.number + 1
  if has_removed then save_shared() end
  if holder and n[1] < holder.number then return { pack_sent({ OLD_NUMBER, server_now }), '' } end
  if holder and n[1] > holder.number and not is_next or not holder and n[1] ~= 1 then
    return { pack_sent({ UNKNOWN_HOLDER, server_now }), '' }
  end
  if not holder or n[1] > holder.number then
    local generation = head[GENERATION]
    apply(n, name)
    save_account(account, name)
    local message = string.format('%.0f %s', head[GENERATION], account)
    if head[GENERATION] ~= generation then redis.pcall('PUBLISH', ARGV[1] .. 'facts', message) end
  end
  return answer(n)
end
