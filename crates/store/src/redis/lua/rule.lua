-- Sets what a tenant is entitled to, or stops it and lets it go on.
--
-- ARGV: prefix, epoch, tenant, what to change, then claim, most in flight, units and window of its rate,
-- weight, priority; or 1 for a pause.

local name = ARGV[3]
local known = call('HGET', K.rules, name)
local rule = { 4, 0, 0, 0, 0, 1, 2 }
if known then rule = { unpacked('>ddddddd', known) } end
if ARGV[4] == 'rule' then
  rule[1], rule[2], rule[3], rule[4] = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  rule[6], rule[7] = tonumber(ARGV[9]), tonumber(ARGV[10])
else
  rule[5] = tonumber(ARGV[5])
end
call('HSET', K.rules, name, pack('>ddddddd', unpack(rule)))
call('ZADD', K.who, 0, name)
if call('HEXISTS', K.t, name) == 1 then
  local tenant = tenant_of(name)
  for i = 1, 5 do tenant[i] = rule[i] end
  ring = true
  wake_seats(name)
  save_all()
end
return 1
