-- Samples the congestion of tenants with work, or resets a tenant's statistics.
--
-- ARGV: prefix, epoch, `all`, keep, after which name, how many; or `reset`, tenant.

if ARGV[3] == 'reset' then
  local name = ARGV[4]
  if call('HEXISTS', K.t, name) == 0 then return 1 end
  local tenant = tenant_of(name)
  if tenant[12] > 0 then return 0 end
  for i = 7, 10 do tenant[i] = 0 end
  for i = 14, 18 do tenant[i] = 0 end
  call('UNLINK', P .. 'k:' .. name)
  save_all()
  return 1
end

local keep, from = tonumber(ARGV[4]), ARGV[5] == '' and '-' or '(' .. ARGV[5]
local names = call('ZRANGEBYLEX', K.who, from, '+', 'LIMIT', 0, tonumber(ARGV[6]))
if #names == 0 then return '' end
load_tenants(names)
for _, name in ipairs(names) do
  local tenant = tenants[name]
  if not tenant.idle then
    local key = P .. 'k:' .. name
    call('RPUSH', key, pack('>I7I7I7I7', now, tenant[12], tenant[17], tenant[16]))
    -- A few at a time: old samples go as fast as new ones come.
    for _ = 1, 4 do
      local first = call('LINDEX', key, 0)
      if not first or unpacked('>I7', first) >= now - keep then break end
      call('LPOP', key)
    end
    call('PEXPIRE', key, floor(keep / 1000) + 1)
  end
end
return names[#names]
