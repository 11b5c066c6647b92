-- Sets what one tenant or all others are entitled to, or stops one and lets it go on.
--
-- ARGV: prefix, epoch, tenant, what to change (`rule`, `unset`, `pause`), then claim, most in flight, units and
-- window of its rate, weight, priority; or 1 for a pause. Without a tenant: `usual` and the same numbers, which
-- answers the number of this change, or 0 if nothing is to be done; or `wake`, that number, after which name,
-- how many, which answers the last name.

local name, what = ARGV[3], ARGV[4]

local function numbers_of(rule)
  for i = 1, 4 do rule[i] = tonumber(ARGV[4 + i]) end
  rule[6], rule[7] = tonumber(ARGV[9]), tonumber(ARGV[10])
  return rule
end

-- Whoever waits because of the old bound is woken piece by piece; until all were, the change is not complete,
-- and whoever sets the same again goes on with it.
local function set_usual()
  local text = pack(RULE_FORM, unpack(numbers_of({ 0, 0, 0, 0, 0, 0, 0 })))
  local known = call('HMGET', K.epoch, 'usual', 'usuals', 'woken')
  if known[1] == text then return known[2] == known[3] and 0 or tonumber(known[2]) end
  call('HSET', K.epoch, 'usual', text)
  local number = call('HINCRBY', K.epoch, 'usuals', 1)
  ring_bell()
  return number
end

local function wake()
  local from, most = ARGV[6] == '' and '-' or '(' .. ARGV[6], tonumber(ARGV[7])
  local names = call('ZRANGEBYLEX', K.who, from, '+', 'LIMIT', 0, most)
  load_tenants(names)
  for _, one in ipairs(names) do
    if tenants[one].usual and tenants[one][20] > 0 then wake_seats(one) end
  end
  save_all()
  if #names == most then return names[most] end
  call('HSET', K.epoch, 'woken', ARGV[5])
  return ''
end

local function set_own()
  local known = call('HGET', K.rules, name)
  local rule = known and { unpacked(RULE_FORM, known) } or { 0, 0, 0, 0, 0, 0, 0 }
  if what == 'rule' then
    numbers_of(rule)
  elseif what == 'unset' then
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
  ring = true
  wake_seats(name)
  save_all()
  return 1
end

if what == 'usual' then return set_usual() end
if what == 'wake' then return wake() end
return set_own()
