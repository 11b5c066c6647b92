-- Requeues dead letters, or removes them.
--
-- ARGV: prefix, epoch, operation (`revive`, `purge`), filter (`all`, `tenant`, `action`, `jobs`,
-- `before`), after which place, how many to check, then the filter's values.

local revive, which, after, most = ARGV[3] == 'revive', ARGV[4], ARGV[5], tonumber(ARGV[6])
local found = call('ZRANGEBYSCORE', K.dead, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local wanted = {}
for i = 7, #ARGV do wanted[ARGV[i]] = true end

local function is_meant(entry, job, at)
  if which == 'all' then return true end
  if which == 'tenant' then return wanted[entry.tenant] end
  if which == 'action' then return wanted[job.action] end
  if which == 'before' then return at < tonumber(ARGV[7]) end
  return wanted[job.id]
end

local function stand_again(entry, job, action)
  job.attempts, job.retries, job.throttles, job.recoveries, job.errors, job.history = 0, 0, 0, 0, 0, ''
  entry.record = write_record(job, entry.record)
  local lane = lane_of(entry.lane)
  count_waiting(lane, 1)
  if action then
    count(action, 'q', 1)
    call('SADD', P .. 'm:' .. action.name, lane.name .. ' ' .. entry.tenant)
  end
  if job.remember then call('ZADD', K.names, 'inf', job.id) end
  give_back(lane, entry.tenant, entry)
end

-- The requeued job replaces its earlier outcome. The place stays, so that those
-- of other outcomes do.
local function forget_failure(action, place)
  local key = P .. 'e:' .. action.name
  local outcome_at = call('HGET', key, place)
  if not outcome_at then return end
  -- A foreign value may be in the key: the job is already requeued, and continues.
  redis.pcall('LSET', P .. 'r:' .. action.name, outcome_at - 1, '')
  call('HDEL', key, place)
end

local function deal(packed, entry, job, place)
  local action = job.action and action_of(job.action)
  if action and entry.first <= action.floor then action = nil end
  call('ZREM', K.dead, packed)
  g[7] = g[7] - 1
  local tenant = call('HEXISTS', K.t, entry.tenant) == 1 and tenant_of(entry.tenant)
  if tenant then tenant[8] = max(0, tenant[8] - 1) end
  if action then count(action, 'dd', -1) end
  if not revive then
    g[8] = g[8] + 1
    if tenant then tenant[9] = tenant[9] + 1 end
    if action then count(action, 'fa', 1) end
    return
  end
  -- An action that ended early goes on without the job: for it the job has failed.
  if action and is_cut_short(action) then
    count(action, 'fa', 1)
    action = nil
  end
  if not action and job.action then leave_action(job) end
  if action then forget_failure(action, place) end
  stand_again(entry, job, action)
end

local many, place, more = 0, tonumber(after), #found == 2 * most
for i = 1, #found, 2 do
  local packed = found[i]
  local entry, job = sound_entry(sub(packed, 8))
  local meant = entry and is_meant(entry, job, (unpacked('>I7', packed)))
  place = tonumber(found[i + 1])
  if not entry then
    call('ZREM', K.dead, packed)
    set_aside(packed)
  elseif meant then
    many = many + 1
    deal(packed, entry, job, found[i + 1])
  elseif which == 'before' then
    more = false
    break
  end
end
if many > 0 then
  must_notify = true
  save_actions()
  save_all()
end
return { many, place, more and 1 or 0 }
