-- Sets the rule of one tenant or the default rule, or pauses and resumes a tenant.
--
-- ARGV: prefix, epoch, tenant, operation (`rule`, `unset`, `pause`), then share, max in flight,
-- units and window of its rate, weight, priority; or 1 for a pause. Without a tenant: `usual` and
-- the numbers of a rule, which returns the number of this change, or 0 if nothing changes; or
-- `wake`, that number, after which name, how many, which returns the last name.

local name, operation = ARGV[3], ARGV[4]

local function numbers_of(rule)
  for i = 1, 4 do rule[i] = tonumber(ARGV[4 + i]) end
  rule[6], rule[7] = tonumber(ARGV[9]), tonumber(ARGV[10])
  return rule
end

-- Tenants that wait because of the old bound are woken in pieces. Until all are, the change is
-- incomplete, and setting the same rule again continues it.
local function set_default()
  local text = pack(RULE_FORM, unpack(numbers_of({ 0, 0, 0, 0, 0, 0, 0 })))
  local known = call('HMGET', K.epoch, 'usual', 'usuals', 'woken')
  if known[1] == text then return known[2] == known[3] and 0 or tonumber(known[2]) end
  call('HSET', K.epoch, 'usual', text)
  local number = call('HINCRBY', K.epoch, 'usuals', 1)
  notify()
  return number
end

local function wake()
  local from, most = ARGV[6] == '' and '-' or '(' .. ARGV[6], tonumber(ARGV[7])
  local names = call('ZRANGEBYLEX', K.who, from, '+', 'LIMIT', 0, most)
  load_tenants(names)
  for _, one in ipairs(names) do
    if tenants[one].usual and tenants[one][20] > 0 then wake_slots(one) end
  end
  save_all()
  if #names == most then return names[most] end
  call('HSET', K.epoch, 'woken', ARGV[5])
  return ''
end

local function set_own()
  local known = call('HGET', K.rules, name)
  local rule = known and { unpacked(RULE_FORM, known) } or { 0, 0, 0, 0, 0, 0, 0 }
  if operation == 'rule' then
    numbers_of(rule)
  elseif operation == 'unset' then
    rule = { 0, 0, 0, 0, rule[5], 0, 0 }
  else
    rule[5] = tonumber(ARGV[5])
  end
  local met = call('HEXISTS', K.t, name) == 1
  if rule[1] + rule[5] > 0 then
    call('HSET', K.rules, name, pack(RULE_FORM, unpack(rule, 1, 7)))
    call('ZADD', K.who, 0, name)
  else
    call('HDEL', K.rules, name)
    if not met then call('ZREM', K.who, name) end
  end
  if rule[5] > 0 then call('ZADD', P .. 'stopped', 0, name) else call('ZREM', P .. 'stopped', name) end
  if not met then return 1 end
  local tenant = tenant_of(name)
  entitle(tenant, rule[1], rule[2], rule[3], rule[4])
  tenant[5] = rule[5]
  must_notify = true
  wake_slots(name)
  save_all()
  return 1
end

if operation == 'usual' then return set_default() end
if operation == 'wake' then return wake() end
return set_own()
