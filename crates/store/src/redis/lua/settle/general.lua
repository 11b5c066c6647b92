-- Settles claims of a session, for all kinds of ends.

local answers, claims, forms, entries, names, seen = {}, {}, {}, {}, {}, {}
for i = 1, ends do
  claims[i], forms[i] = unpacked(CLAIM_FORM, fields[i]), form_of(i)
  local packed = found[i]
  if packed and not seen[claims[i]] then
    seen[claims[i]] = true
    local tenant, record_at = owner_of(packed)
    entries[i] = { packed = packed, tenant = tenant, record_at = record_at }
    names[#names + 1] = tenant
  end
end
load_tenants(names)

local DONE_END, RETRY, FAILED_END, THROTTLED, RETURNED, PUT_OFF_FIXED = 1, 2, 3, 4, 5, 6
local RETRY_PUT_OFF, API_FAILED = 8, 9
local A_DONE, A_BURIED, A_WAITS, A_CANCELLED = 1, 2, 3, 5

-- Entries to return are read before the first write, so that a foreign key stops the step here.
local function full(entry)
  if entry.record then return end
  local parsed = parse_entry(entry.packed)
  for key, value in pairs(parsed) do entry[key] = value end
  entry.job = parse_record(entry.record)
end
for i, entry in pairs(entries) do
  local kind = forms[i][1]
  entry.holds = byte(entry.packed) >= HOLDS or nil
  if entry.holds then starts.of_tenant(entry.tenant, tenants[entry.tenant]) end
  if kind ~= DONE_END or entry.holds or has(byte(entry.packed, entry.record_at), HAS_ACTION) then
    full(entry)
    if entry.job.action then action_of(entry.job.action) end
    if kind ~= DONE_END and kind ~= FAILED_END then
      slot_of(lane_of(entry.lane), entry.tenant)
      call('ZCARD', back_key(lane_of(entry.lane), entry.tenant, entry.class))
      call('ZCARD', lane_of(entry.lane).delayed)
    end
  end
end

local gone = {}
for i = 1, ends do
  if entries[i] then gone[#gone + 1] = fields[i] end
end
if #gone > 0 then write_all('HDEL', session_key, gone) end

-- Returns the age of a call's latest possible arrival; nothing if it was never sent. A claim without
-- one counts as arrived now.
local function age_of(i)
  if ARGV[6] == '' then return 0 end
  local age = unpacked('>I7', ARGV[6], TOOK_SIZE * (i - 1) + 1)
  return age > 0 and age - 1 or nil
end

-- A tenant at its bound may start jobs again.
local freed = {}
local function leave(tenant, name)
  if tenant[2] > 0 and tenant[6] >= tenant[2] then freed[name] = true end
  tenant[6], tenant.dirty = tenant[6] - 1, true
  g[5] = g[5] - 1
end

local function wait_again(entry)
  local lane = lane_of(entry.lane)
  count_waiting(lane, 1)
  if entry.action then count(entry.action, 'q', 1) end
  return lane
end

-- A tenant's turns are charged by its best class, which is not stored. A better class of now was
-- there then, or came since.
local function best_class(slot, class)
  for better = 3, class + 1, -1 do
    if slot[5 + better] + slot[8 + better] > 0 then return better end
  end
  return class
end

-- Refunds the turn, at most to one turn behind the clock.
local function refund(lane, entry)
  local slot = slot_of(lane, entry.tenant)
  local factor = FACTOR[best_class(slot, entry.class)]
  local step = charge_of(entry.job.cost) / (tenants[entry.tenant][1] * factor)
  local clock = meta_of(lane)[1]
  if slot[1] > clock - step then slot[1] = max(slot[1] - step, clock - step) end
  slot.dirty = true
end

-- Returns true if the job would start again.
local function begins_again(job, kind)
  if kind == RETRY or kind == RETRY_PUT_OFF then return job.retries < job.max_retries end
  return kind ~= DONE_END and kind ~= FAILED_END
end

-- Returns true if the job ends as cancelled: it was cancelled while claimed, or its action is over,
-- and it would start again. The result of a finished call counts. The action counts it either way,
-- unless the name belongs to another action by now.
local function is_cancelled(entry, tenant, claim, kind)
  local job = entry.job
  local name = job and job.action
  local action = action_since(name, claim)
  entry.action = action
  if not begins_again(job, kind) then return false end
  if claim <= tenant[19] or (name and not action) then return true end
  return action and (action.st == CANCELLED or action.st == FAILED)
end

local function end_cancelled(entry, tenant)
  full(entry)
  tenant[10] = tenant[10] + 1
  g[9] = g[9] + 1
  if entry.action then
    count(entry.action, 'ca', 1)
    entry.job.attempts = entry.job.attempts + 1
    record_outcome(entry.action, ENDED_CANCELLED, entry.job, entry.tenant)
  end
  free_name(entry.job)
  return A_CANCELLED
end

local function end_done(entry, tenant, took, result)
  tenant[7], tenant[15] = tenant[7] + 1, tenant[15] + took
  g[6], g[11] = g[6] + 1, g[11] + took
  local flags = byte(entry.packed, entry.record_at)
  if flags >= HAS_NAME or entry.action then
    full(entry)
    local job = entry.job
    if entry.action then
      count(entry.action, 'dn', 1)
      count(entry.action, 'bu', took)
      job.attempts = job.attempts + 1
      record_outcome(entry.action, DONE, job, entry.tenant, result)
    end
    forget_name(job)
  end
  return A_DONE
end

local function end_dead_letter(entry, tenant, words, result)
  local job, outcome_at = entry.job, nil
  tenant[8] = tenant[8] + 1
  if entry.action then
    count(entry.action, 'dd', 1)
    outcome_at = record_outcome(entry.action, ENDED_FAILED, job, entry.tenant, result, words)
  elseif job.action then
    leave_action(job)
  end
  dead_letter(job, entry, words, outcome_at)
  return A_BURIED
end

-- The worker survived the attempt, so the job does not kill workers.
local function survive(job) job.attempts, job.recoveries = job.attempts + 1, 0 end

local function end_retry(entry, tenant, after, words, result)
  local job = entry.job
  survive(job)
  if job.retries >= job.max_retries then return end_dead_letter(entry, tenant, words, result) end
  job.retries = job.retries + 1
  add_error(job, words)
  entry.record = write_record(job, entry.record)
  wait_again(entry)
  tenant[11] = tenant[11] + 1
  g[3] = g[3] + 1
  if entry.action then count(entry.action, 'dl', 1) end
  delay(entry, now + after)
  must_notify = true
  return A_WAITS
end

-- The API failed, and not the job: it waits without a retry, and its tenant gets the turn back.
local function end_api_failed(entry, tenant, after, words)
  local job = entry.job
  survive(job)
  add_error(job, words)
  entry.record = write_record(job, entry.record)
  refund(wait_again(entry), entry)
  tenant[11] = tenant[11] + 1
  g[3] = g[3] + 1
  if entry.action then count(entry.action, 'dl', 1) end
  delay(entry, now + after)
  must_notify = true
  return A_WAITS
end

-- A throttle counts when it happens, for any fate of its job.
local function count_throttle(entry, tenant)
  local job = entry.job
  job.throttles = job.throttles + 1
  tenant[14], g[10] = tenant[14] + 1, g[10] + 1
  if entry.action then count(entry.action, 'th', 1) end
end

local function end_throttled(entry, tenant, after, whole_lane)
  local job = entry.job
  survive(job)
  count_throttle(entry, tenant)
  entry.record = write_record(job, entry.record)
  local lane = wait_again(entry)
  refund(lane, entry)
  local slot = slot_of(lane, entry.tenant)
  if whole_lane then
    lane.meta[3], lane.dirty = max(lane.meta[3], now + after), true
  else
    local until_then = now + after
    local parked = call('ZSCORE', lane.parked, entry.tenant)
    if parked then until_then = max(until_then, tonumber(parked)) end
    call('ZADD', lane.parked, until_then, entry.tenant)
    wake_at(lane, until_then)
    slot[2] = 1
  end
  give_back(lane, entry.tenant, entry)
  must_notify = true
  return A_WAITS
end

-- Restores the state before the claim, except for an attempt that had started.
local function end_returned(entry, begun)
  if begun then
    entry.job.attempts = entry.job.attempts + 1
    entry.record = write_record(entry.job, entry.record)
  end
  local lane = wait_again(entry)
  refund(lane, entry)
  give_back(lane, entry.tenant, entry)
  must_notify = true
  return A_WAITS
end

local function backoff_of(form, non_ready)
  if form[1] == PUT_OFF_FIXED then return form[2], 0 end
  local speed = max(1, min(form[5], floor(form[4] / max(1, g[15]))))
  return min(form[2] + floor(non_ready / speed) * 1000000, form[3]), speed
end

-- Defers the job.
local function wait_off(entry, tenant, form)
  entry.record = write_record(entry.job, entry.record)
  wait_again(entry)
  tenant[12] = tenant[12] + 1
  g[4] = g[4] + 1
  if entry.action then count(entry.action, 'nr', 1) end
  local backoff, speed = backoff_of(form, tenant[12])
  tenant[16], tenant[17], tenant[18] = backoff, speed, now
  delay(entry, now + backoff, true)
  must_notify = true
  return { backoff, tenant[12], speed }
end

local function end_put_off(entry, tenant, form)
  entry.job.attempts = entry.job.attempts + 1
  count_throttle(entry, tenant)
  return wait_off(entry, tenant, form)
end

local function end_retry_put_off(entry, tenant, form, words, result)
  local job = entry.job
  survive(job)
  if job.retries >= job.max_retries then return end_dead_letter(entry, tenant, words, result) end
  job.retries = job.retries + 1
  add_error(job, words)
  return wait_off(entry, tenant, form)
end

local function words_and_result(rest, form)
  return sub(rest, HEAD + 1, HEAD + form[2]), sub(rest, HEAD + 1 + form[2])
end

-- Here all numbers are in use, so the length comes first.
local function long_words_and_result(rest)
  local length, at = unpacked('>I7', rest, HEAD + 1)
  return sub(rest, at, at + length - 1), sub(rest, at + length)
end

for i = 1, ends do
  local entry, form = entries[i], forms[i]
  if not entry then
    answers[i] = A_FENCED
  else
    local tenant, kind, rest = tenants[entry.tenant], form[1], ARGV[6 + i] or ''
    if entry.holds then starts.end_hold(entry, tenant, entry.job.cost, age_of(i)) end
    leave(tenant, entry.tenant)
    local cancelled = is_cancelled(entry, tenant, claims[i], kind)
    if entry.action then count(entry.action, 'fl', -1) end
    if cancelled then
      answers[i] = end_cancelled(entry, tenant)
    elseif kind == DONE_END then
      answers[i] = end_done(entry, tenant, form[2], #rest > HEAD and sub(rest, HEAD + 1))
    elseif kind == RETRY then
      local words, result = words_and_result(rest, form)
      answers[i] = end_retry(entry, tenant, form[3], words, result)
    elseif kind == RETRY_PUT_OFF then
      answers[i] = end_retry_put_off(entry, tenant, form, long_words_and_result(rest))
    elseif kind == FAILED_END then
      entry.job.attempts = entry.job.attempts + 1
      answers[i] = end_dead_letter(entry, tenant, words_and_result(rest, form))
    elseif kind == API_FAILED then
      answers[i] = end_api_failed(entry, tenant, form[3], (words_and_result(rest, form)))
    elseif kind == THROTTLED then
      answers[i] = end_throttled(entry, tenant, form[2], form[3] == 1)
    elseif kind == RETURNED then
      answers[i] = end_returned(entry, form[2] == 1)
    else
      answers[i] = end_put_off(entry, tenant, form)
    end
  end
end
for name in pairs(freed) do wake_slots(name) end
if #gone > 0 then
  starts.save()
  save_actions()
  save_all()
end
return answers
