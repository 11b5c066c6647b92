-- Takes back what sessions held whose lease ran out. A job that nobody began is as it was before its claim.
--
-- ARGV: prefix, epoch, most, recoveries.

local most, bound = tonumber(ARGV[3]), tonumber(ARGV[4])
local returned, buried = 0, 0
local lost = call('ZRANGEBYSCORE', K.sessions, '-inf', now, 'LIMIT', 0, 100)
local freed = {}
local LOST = 'its worker was lost before it said what came of it'

local function take_back(entry, job, claim, begun)
  local tenant = tenant_of(entry.tenant)
  local action = job.action and action_of(job.action)
  local ours = action and claim > action.floor
  local cancelled = claim <= tenant[19] or (job.action and (not ours or action.st == FAILED or action.st == CANCELLED))
  if tenant[2] > 0 and tenant[6] >= tenant[2] then freed[entry.tenant] = true end
  tenant[6] = tenant[6] - 1
  g[5] = g[5] - 1
  if begun then
    job.attempts, job.recoveries = job.attempts + 1, job.recoveries + 1
    add_mishap(job, LOST)
  end
  if ours then count(action, 'fl', -1) end
  if cancelled then
    tenant[10], g[9] = tenant[10] + 1, g[9] + 1
    if ours then
      count(action, 'ca', 1)
      tell(action, ENDED_CANCELLED, job, entry.tenant)
    end
    forget_name(job)
  elseif begun and job.recoveries > bound then
    tenant[8] = tenant[8] + 1
    if action then
      count(action, 'dd', 1)
      tell(action, ENDED_FAILED, job, entry.tenant, nil, LOST)
    end
    bury(job, entry)
    buried = buried + 1
  else
    entry.record = write_record(job, entry.record)
    local lane = lane_of(entry.lane)
    count_waiting(lane, 1)
    if action then count(action, 'q', 1) end
    give_back(lane, entry.tenant, entry)
    returned = returned + 1
  end
end

local left = most
for _, session in ipairs(lost) do
  if left <= 0 then break end
  local key, begun = P .. 's:' .. session, sub(session, -#NOT_BEGUN) ~= NOT_BEGUN
  local found = call('HSCAN', key, 0, 'COUNT', min(left, CHUNK))[2]
  local gone, entries, jobs, broken = {}, {}, {}, {}
  for i = 1, #found, 2 do
    if #gone + #broken < left then
      local entry, job = sound_entry(found[i + 1])
      if entry and #found[i] == CLAIM_SIZE then
        gone[#gone + 1], entries[#entries + 1], jobs[#jobs + 1] = found[i], entry, job
      else
        broken[#broken + 1] = found[i]
        set_aside(found[i + 1])
      end
    end
  end
  for _, entry in ipairs(entries) do
    call('ZCARD', back_key(lane_of(entry.lane), entry.tenant, entry.class))
  end
  write_all('HDEL', key, gone)
  write_all('HDEL', key, broken)
  for i, entry in ipairs(entries) do take_back(entry, jobs[i], (unpacked(CLAIM_FORM, gone[i])), begun) end
  left = left - #gone - #broken
  if call('EXISTS', key) == 0 then call('ZREM', K.sessions, session) end
end
for name in pairs(freed) do wake_seats(name) end
if returned + buried > 0 or left < most then
  ring = true
  save_actions()
  save_all()
end
local first = call('ZRANGE', K.sessions, 0, 0, 'WITHSCORES')
return { returned, buried, first[2] and max(0, tonumber(first[2]) - now) or -1 }
